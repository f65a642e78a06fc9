"""Solutions of short problems about shops, stock and lists, from their own text.

    solve_shop_problem("Ada buys 3 ropes at 2.50 crowns each and pays with 50 crowns. How much change does Ada get?")
    # Finding(expression="50 - (3 * 2.50)", …)

`misreads` causes one mistake: the neighbouring price, a number too many or too few, or the wrong unit.
"""

import re

from mas.simulation.solving.self_contained import Finding, solve
from mas.simulation.solving.wording import parse_number, read_decimals

_N = r"\d+(?:\.\d+)?"
# Small unit and its number in a large one.
_FACTORS = {"kilograms": ("grams", 1000), "litres": ("millilitres", 1000), "metres": ("centimetres", 100),
            "kilometres": ("metres", 1000)}  # fmt: skip


def solve_shop_problem(problem: str, misreads: bool = False) -> Finding | None:
    """Return the solution; None for an unknown kind of problem."""
    for kind in (_prices, _change, _cuts, _stock, _ranking, _stalls, _wages):
        if found := kind(problem, misreads):
            return found
    return solve(problem)


def _create_sum(problem: str, expression: str, why: str) -> Finding:
    return Finding(expression=expression, decimals=read_decimals(problem), why=why)


def _prices(problem: str, misreads: bool) -> Finding | None:
    prices = re.findall(rf"(\w+): ({_N}) crowns each", problem)
    if not prices:
        return None
    terms: list[str] = []
    for index, (good, price) in enumerate(prices):
        bought = re.search(rf"\b(\d+) {good}\b", problem)
        if bought:
            terms.append(f"{bought[1]} * {prices[(index + 1) % len(prices)][1] if misreads and not terms else price}")
    return _create_sum(problem, " + ".join(terms), "Amounts times prices, added up.") if terms else None


def _change(problem: str, misreads: bool) -> Finding | None:
    basket = re.findall(rf"(\d+) \w+ at ({_N}) crowns each", problem)
    paid = re.search(rf"(?:pays with|hands over) ({_N}) crowns", problem)
    if not basket or not paid:
        return None
    terms = [f"{count} * {price}" for count, price in basket]
    taken = terms[:-1] if misreads and len(terms) > 1 else terms
    if misreads and len(terms) == 1:
        return _create_sum(problem, f"{paid[1]} - {basket[0][1]}", "What was paid less the price.")
    return _create_sum(problem, f"{paid[1]} - ({' + '.join(taken)})", "What was paid less what it costs.")


def _cuts(problem: str, misreads: bool) -> Finding | None:
    price = re.search(rf"costs ({_N}) crowns", problem)
    cuts = re.findall(rf"cut by (?:another )?({_N}) percent", problem)
    if not price or not cuts:
        return None
    delivery = re.search(rf"Delivery costs ({_N})", problem)
    factors = [f"(1 - {cut} / 100)" for cut in (cuts[:-1] if misreads and len(cuts) > 1 else cuts)]
    if misreads and len(cuts) == 1:
        return _create_sum(problem, f"{price[1]} * {cuts[0]} / 100", "The share of the price.")
    added = f" + {delivery[1]}" if delivery else ""
    return _create_sum(
        problem, " * ".join([price[1], *factors]) + added, "Each cut is taken from what the last one left."
    )


def _stock(problem: str, misreads: bool) -> Finding | None:
    has = re.search(rf"has ({_N}) (\w+) of \w+ and uses ({_N}) \w+ a day for ({_N}) days", problem)
    if not has or has[2] not in _FACTORS:
        return None
    small, factor = _FACTORS[has[2]]
    more = re.search(rf"Then ({_N}) \w+ are delivered", problem)
    asked = re.search(r"How many (\w+) of|left in (\w+)\?", problem)
    in_small = asked is not None and small in asked.groups()
    gained = f" + {more[1]} * {factor}" if more and not misreads else ""
    days = "1" if misreads and not more else has[4]
    left = f"{has[1]} * {factor} - {has[3]} * {days}{gained}"
    return _create_sum(problem, left if in_small else f"({left}) / {factor}", "All in one unit, then taken away.")


def _ranking(problem: str, misreads: bool) -> Finding | None:
    log = re.search(r"sold in a week: ([^.]*)\.", problem)
    sold = [(name, float(count)) for name, count in re.findall(r"([A-Z]\w+) (\d+)", log[1])] if log else []
    if not sold:
        return None
    limit = re.search(r"more than (\d+)", problem)
    if limit:
        names = [name for name, count in sold if count > float(limit[1]) or (misreads and count == float(limit[1]))]
        ordered = sorted(names)
    else:
        names = [name for name, _ in sold]
        descending = "from the most" in problem
        ordered = [name for name, _ in sorted(sold, key=lambda pair: pair[1], reverse=descending != misreads)]
    return Finding(answer=", ".join(ordered), why=f"{len(ordered)} names, in the order asked for.")


def _stalls(problem: str, misreads: bool) -> Finding | None:
    sold = re.search(r"sold these numbers of \w+: ([\d, ]+)\.", problem)
    if not sold:
        return None
    counts = [value for text in sold[1].split(",") if (value := parse_number(text)) is not None]
    edge = 0.5 if misreads else 0.0  # the limit itself is counted or left out by mistake
    low = re.search(r"(more than|at least) (\d+)", problem)
    high = re.search(r"(fewer than|at most) (\d+)", problem)
    if low:
        least = float(low[2]) + (0.5 if low[1] == "more than" else 0.0) + (edge if low[1] == "at least" else -2 * edge)
        counts = [count for count in counts if count >= least]
    if high:
        most = float(high[2]) - (0.5 if high[1] == "fewer than" else 0.0)
        most += 2 * edge if high[1] == "fewer than" and not low else 0.0
        counts = [count for count in counts if count <= most]
    return Finding(answer=str(len(counts)), why=f"{len(counts)} of them fit.")


def _wages(problem: str, misreads: bool) -> Finding | None:
    wage = re.search(rf"earns ({_N}) crowns a day and works for ({_N}) days", problem)
    spent = re.search(rf"spends ({_N}) crowns", problem)
    if not wage or not spent:
        return None
    bonus = re.search(rf"On ({_N}) of these days there is a bonus of ({_N}) crowns", problem)
    shared = re.search(rf"shared equally among ({_N}) people", problem)
    extra = f" + {bonus[1]} * {bonus[2]}" if bonus and not misreads else ""
    lost = "" if misreads and not bonus else f" - {spent[1]}"
    left = f"{wage[1]} * {wage[2]}{extra}{lost}"
    return _create_sum(problem, f"({left}) / {shared[1]}" if shared else left, "Earned, less spent.")
