"""Short problems about shops, stores and lists, worked out from their own text.

    work_out("Ada buys 3 ropes at 2.50 crowns each and pays with 50 crowns. How much change does Ada get?")
    # Finding(expression="50 - (3 * 2.50)", …)

With `slip`, one number too many or too few is taken: the neighbouring price, the limit itself, the wrong unit.
"""

import re

from mas.simulation.solving.self_contained import Finding, solve
from mas.simulation.solving.wording import parse_number, read_decimals

_N = r"\d+(?:\.\d+)?"
# Small units in a large one.
_FACTORS = {"kilograms": ("grams", 1000), "litres": ("millilitres", 1000), "metres": ("centimetres", 100),
            "kilometres": ("metres", 1000)}  # fmt: skip


def work_out(problem: str, slip: bool = False) -> Finding | None:
    """None if it is no problem of a known kind."""
    for kind in (_prices, _change, _cuts, _stock, _ranking, _stalls, _wages):
        if found := kind(problem, slip):
            return found
    return solve(problem)


def _summed(problem: str, expression: str, why: str) -> Finding:
    return Finding(expression=expression, decimals=read_decimals(problem), why=why)


def _prices(problem: str, slip: bool) -> Finding | None:
    prices = re.findall(rf"(\w+): ({_N}) crowns each", problem)
    if not prices:
        return None
    terms: list[str] = []
    for index, (good, price) in enumerate(prices):
        bought = re.search(rf"\b(\d+) {good}\b", problem)
        if bought:
            terms.append(f"{bought[1]} * {prices[(index + 1) % len(prices)][1] if slip and not terms else price}")
    return _summed(problem, " + ".join(terms), "Amounts times prices, added up.") if terms else None


def _change(problem: str, slip: bool) -> Finding | None:
    basket = re.findall(rf"(\d+) \w+ at ({_N}) crowns each", problem)
    paid = re.search(rf"(?:pays with|hands over) ({_N}) crowns", problem)
    if not basket or not paid:
        return None
    terms = [f"{count} * {price}" for count, price in basket]
    taken = terms[:-1] if slip and len(terms) > 1 else terms
    if slip and len(terms) == 1:
        return _summed(problem, f"{paid[1]} - {basket[0][1]}", "What was paid less the price.")
    return _summed(problem, f"{paid[1]} - ({' + '.join(taken)})", "What was paid less what it costs.")


def _cuts(problem: str, slip: bool) -> Finding | None:
    price = re.search(rf"costs ({_N}) crowns", problem)
    cuts = re.findall(rf"cut by (?:another )?({_N}) percent", problem)
    if not price or not cuts:
        return None
    delivery = re.search(rf"Delivery costs ({_N})", problem)
    factors = [f"(1 - {cut} / 100)" for cut in (cuts[:-1] if slip and len(cuts) > 1 else cuts)]
    if slip and len(cuts) == 1:
        return _summed(problem, f"{price[1]} * {cuts[0]} / 100", "The share of the price.")
    added = f" + {delivery[1]}" if delivery else ""
    return _summed(problem, " * ".join([price[1], *factors]) + added, "Each cut is taken from what the last one left.")


def _stock(problem: str, slip: bool) -> Finding | None:
    has = re.search(rf"has ({_N}) (\w+) of \w+ and uses ({_N}) \w+ a day for ({_N}) days", problem)
    if not has or has[2] not in _FACTORS:
        return None
    small, factor = _FACTORS[has[2]]
    more = re.search(rf"Then ({_N}) \w+ are delivered", problem)
    asked = re.search(r"How many (\w+) of|left in (\w+)\?", problem)
    in_small = asked is not None and small in asked.groups()
    gained = f" + {more[1]} * {factor}" if more and not slip else ""
    days = "1" if slip and not more else has[4]
    left = f"{has[1]} * {factor} - {has[3]} * {days}{gained}"
    return _summed(problem, left if in_small else f"({left}) / {factor}", "All in one unit, then taken away.")


def _ranking(problem: str, slip: bool) -> Finding | None:
    log = re.search(r"sold in a week: ([^.]*)\.", problem)
    sold = [(name, float(count)) for name, count in re.findall(r"([A-Z]\w+) (\d+)", log[1])] if log else []
    if not sold:
        return None
    limit = re.search(r"more than (\d+)", problem)
    if limit:
        names = [name for name, count in sold if count > float(limit[1]) or (slip and count == float(limit[1]))]
        ordered = sorted(names)
    else:
        names = [name for name, _ in sold]
        descending = "from the most" in problem
        ordered = [name for name, _ in sorted(sold, key=lambda pair: pair[1], reverse=descending != slip)]
    return Finding(answer=", ".join(ordered), why=f"{len(ordered)} names, in the order asked for.")


def _stalls(problem: str, slip: bool) -> Finding | None:
    sold = re.search(r"sold these numbers of \w+: ([\d, ]+)\.", problem)
    if not sold:
        return None
    counts = [value for text in sold[1].split(",") if (value := parse_number(text)) is not None]
    edge = 0.5 if slip else 0.0  # the limit itself is counted, or left out
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


def _wages(problem: str, slip: bool) -> Finding | None:
    wage = re.search(rf"earns ({_N}) crowns a day and works for ({_N}) days", problem)
    spent = re.search(rf"spends ({_N}) crowns", problem)
    if not wage or not spent:
        return None
    bonus = re.search(rf"On ({_N}) of these days there is a bonus of ({_N}) crowns", problem)
    shared = re.search(rf"shared equally among ({_N}) people", problem)
    extra = f" + {bonus[1]} * {bonus[2]}" if bonus and not slip else ""
    lost = "" if slip and not bonus else f" - {spent[1]}"
    left = f"{wage[1]} * {wage[2]}{extra}{lost}"
    return _summed(problem, f"({left}) / {shared[1]}" if shared else left, "Earned, less spent.")
