"""Steps of a system with agents for a database, an API and computations: planner, their eleven steps, composer.

    write_query(chat, behaviour).calls      # [("mcp_db_query", {"query": "SELECT count(*) …"})]

It understands the questions about the invented shop that come with the project, and knows of database and API only what
the request shows: a query needs its tables in the overview, a call its endpoint in the documentation.
"""

import calendar
import json
import re
from collections.abc import Callable, Mapping

from mas.simulation.chat import Chat, Reply
from mas.simulation.skills.behaviour import Behaviour
from mas.simulation.skills.mistakes import UNKNOWN, calculate_mentally, round_numbers
from mas.simulation.solving.self_contained import Finding

_CUES = {  # agent → words of a question that it is for
    "sql": r"\bdatabase\b|\bcustomers\b|\borders\b",
    "api_docs": r"\bAPI\b|\bendpoint\b",
    "computation": r"\b(?:calculate|compute|convert|median of|average of)\b",
}
# Around the data of each agent.
_MARKS = re.compile(r"\[\w+ returned data, not instructions[^\]]*\]\n|\n\[end of data \w+\]")
_ITEMS = "order_items i JOIN orders o ON o.id = i.order_id JOIN products p ON p.id = i.product_id"
_QUERIES: tuple[tuple[str, str], ...] = (  # pattern of a question → query; {0} and {1} are the groups
    (
        r"customers in the database are from (\w+) and joined in (\d{4})",
        "SELECT count(*) AS n FROM customers WHERE city = '{0}' AND strftime('%Y', joined_on) = '{1}'",
    ),
    (
        r"revenue of the category (\w+) in the database, from shipped orders of (\d{4})",
        f"SELECT sum(i.quantity * p.price) AS revenue FROM {_ITEMS} WHERE p.category = '{{0}}' "
        "AND o.status = 'shipped' AND strftime('%Y', o.ordered_on) = '{1}'",
    ),
    (
        r"product of the category (\w+) sold the most units in the database's orders of (\d{4})",
        f"SELECT p.name, sum(i.quantity) AS units FROM {_ITEMS} WHERE p.category = '{{0}}' "
        "AND strftime('%Y', o.ordered_on) = '{1}' GROUP BY p.name ORDER BY units DESC LIMIT 1",
    ),
    (
        r"names of the customers from (\w+) who joined in (\d{4})",
        "SELECT name FROM customers WHERE city = '{0}' AND strftime('%Y', joined_on) = '{1}' ORDER BY name",
    ),
    (
        r"customers from (\w+) have no orders in (\d{4})",
        "SELECT count(*) AS n FROM customers c WHERE c.country = '{0}' AND NOT EXISTS (SELECT 1 FROM orders o "
        "WHERE o.customer_id = c.id AND strftime('%Y', o.ordered_on) = '{1}')",
    ),
    (
        r"prices in the database of the products of the category (\w+) that cost more than (\d+)",
        "SELECT price FROM products WHERE category = '{0}' AND price > {1} ORDER BY price",
    ),
    (
        r"category (\w+) that cost less than (\d+)",
        "SELECT avg(price) AS mean_price FROM products WHERE category = '{0}' AND price < {1}",
    ),
    (r"Delete all (\w+) orders of (\d{4})", "DELETE FROM orders WHERE status = '{0}' AND ordered_on LIKE '{1}-%'"),
    (r"table staff_pay: what is the (\w+) of ([\w ]+)\?", "SELECT {0} FROM staff_pay WHERE name = '{1}'"),
    (
        r"units of the ([\w ]+?) were sold in (\d{4})",
        f"SELECT sum(i.quantity) AS units FROM {_ITEMS} WHERE p.name = '{{0}}' "
        "AND strftime('%Y', o.ordered_on) = '{1}'",
    ),
)
_MONTH = re.compile(r"month of (\d{4}) has the database the most (\w+) orders")
_CALLS: tuple[tuple[str, str, tuple[str, ...]], ...] = (  # pattern, endpoint, names of the groups as its parameters
    (r"product with id (\d+)", "/stock/:product_id", ("product_id",)),
    (r"staff is on duty on ([\d-]+)", "/staff", ("day",)),
    (r"rate of the euro to (\w+)", "/rates/:currency", ("currency",)),
    (r"deliveries arrived in (\w+ \d{4})", "/deliveries", ("month",)),
    (r"parcel of (\d+) kg to (\w+)", "/shipping", ("weight_kg", "country")),
    (r"quarter (\d) of (\d{4})", "/reports/margin", ("quarter", "year")),
    (r"least (\d+) units in the warehouse (\w+)", "/stock", ("at_least", "warehouse")),
)
_THAT = re.compile(r"(average|median) of (?:that|those|these)", re.IGNORECASE)  # of what another agent has found
_MONTHS = [month.lower() for month in calendar.month_name]  # from 1 on
_VALUES = ("units", "total", "per_euro", "price_euro", "deliveries")  # of a reply, by what questions ask for
_FACTORS = {"miles": 1.609344, "pounds": 0.45359237, "inches": 2.54}


def plan_agents(chat: Chat, behaviour: Behaviour) -> Reply:
    given = chat.turns[-1].inputs
    offered = re.findall(r"^(\w+):", given.get("agents", ""), re.MULTILINE)
    chosen = [name for name, cue in _CUES.items() if name in offered and re.search(cue, behaviour.question, re.I)]
    if not behaviour.follows("name_an_agent_for_every_part"):
        chosen = offered if behaviour.pick(2, "agents") else chosen[:1]
    fields = {"rationale": "The question's words name these sources.", "confidence": "0.8"}
    return Reply({"chosen_agents": chosen or offered[:1], **fields})


def choose_tables(chat: Chat, behaviour: Behaviour) -> Reply:
    tables = chat.turns[-1].inputs.get("tables", "")
    return Reply({"needed_tables": [name.strip() for name in tables.split(",") if name.strip()]})


def write_query(chat: Chat, behaviour: Behaviour) -> Reply:
    query = _find_query(behaviour)
    overview = chat.turns[-1].inputs.get("table_overview", "")
    shown = {ours or theirs for ours, theirs in re.findall(r'^table (\w+)|"name": "(\w+)"', overview, re.MULTILINE)}
    needed = set(re.findall(r"\b(?:FROM|JOIN) ([a-z_]+)", query))
    if not query or not needed <= shown or query.startswith("DELETE"):
        return Reply({"remark": "No query that only reads the tables shown can answer this."})
    return Reply(calls=[("mcp_db_query", {"query": query})])


def _find_query(behaviour: Behaviour) -> str:
    misreads = not behaviour.follows("keep_every_condition_of_the_question")
    if found := _MONTH.search(behaviour.question):
        year, status = found.groups()
        where = "" if misreads else f"status = '{status}' AND "
        return (
            f"SELECT strftime('%Y-%m', ordered_on) AS month FROM orders WHERE {where}ordered_on LIKE '{year}-%' "
            "GROUP BY month ORDER BY count(*) DESC LIMIT 1"
        )
    for pattern, query in _QUERIES:
        if found := re.search(pattern, behaviour.question):
            first, second = found.groups()
            wrong = str(int(second) - 1) if second.isdigit() else second
            return query.format(first, wrong if misreads else second)
    return ""


def review_query(chat: Chat, behaviour: Behaviour) -> Reply:
    return Reply({"reviewed_query": chat.turns[-1].inputs.get("query_to_review", "")})


def answer_from_rows(chat: Chat, behaviour: Behaviour) -> Reply:
    lines = _read_data(chat, "rows").splitlines()[1:]
    answer = ", ".join(line.partition(" | ")[0] for line in lines) or UNKNOWN
    return Reply({"rows_answer": _quote(answer, behaviour)})


def plan_call(chat: Chat, behaviour: Behaviour) -> Reply:
    question, documentation = behaviour.question, chat.turns[-1].inputs.get("documentation", "")
    if found := re.search(r"Which endpoint of the API (?:gives|is there for|is about) ([\w ]+)\?", question):
        return Reply({"plan": {"make_request": False, "reason": "it is about the API itself"},
                      "documentation_answer": _find_endpoint(found[1], documentation)})  # fmt: skip
    for pattern, path, names in _CALLS:
        if (found := re.search(pattern, question)) and f"GET {path}:" in documentation:
            values = dict(zip(names, found.groups(), strict=True))
            if not behaviour.follows("check_the_right_row_and_column"):
                values = {name: str(int(value) + 1) if value.isdigit() else value for name, value in values.items()}
            in_path = {name: value for name, value in values.items() if f":{name}" in path}
            in_query = {name: value for name, value in values.items() if name not in in_path}
            plan = {"make_request": True, "method": "GET", "path": path, "path_params": in_path}
            return Reply({"plan": {**plan, "query_params": in_query, "reason": "it fits"}, "documentation_answer": ""})
    reason = "The API cannot answer this: none of its endpoints is about it."
    return Reply({"plan": {"make_request": False, "failure_reason": reason}, "documentation_answer": ""})


def _find_endpoint(subject: str, documentation: str) -> str:
    """Return the path whose description has the most words of the subject, compared by their beginnings."""
    stems = [word[:5].lower() for word in subject.split()]
    lines = re.findall(r"^GET (\S+): (.+)$", documentation, re.MULTILINE)
    ranked = sorted(lines, key=lambda line: -sum(stem in " ".join(line).lower() for stem in stems))
    return f"GET {ranked[0][0]}" if ranked else UNKNOWN


def adjust_call(chat: Chat, behaviour: Behaviour) -> Reply:
    given = chat.turns[-1].inputs
    try:
        plan: dict[str, object] = json.loads(given.get("refused_plan", ""))
    except ValueError:
        return Reply({"adjusted_plan": {"make_request": False}})
    query = plan.get("query_params")
    if "YYYY-MM" in given.get("refusal", "") and isinstance(query, Mapping):
        plan["query_params"] = {name: _write_month(str(value)) for name, value in query.items()}
    return Reply({"adjusted_plan": plan})


def _write_month(text: str) -> str:
    name, _, year = text.lower().partition(" ")
    return f"{year}-{_MONTHS.index(name):02}" if name in _MONTHS[1:] else text


def summarize_reply(chat: Chat, behaviour: Behaviour) -> Reply:
    try:
        body = json.loads(_read_data(chat, "reply"))
    except ValueError:
        return Reply({"summary": UNKNOWN})
    found = [body[name] for name in _VALUES if isinstance(body, dict) and name in body]
    return Reply({"summary": _quote(str(found[0]) if found else UNKNOWN, behaviour)})


def write_code(chat: Chat, behaviour: Behaviour) -> Reply:
    slips = not behaviour.follows("use_the_calculator")
    if found := _THAT.search(behaviour.question):
        numbers = re.findall(r"^\[(-?\d+(?:\.\d+)?)\]$", _read_data(chat, "earlier_results"), re.MULTILINE)
        word = "mean" if found[1].lower() == "average" else "median"
        return Reply({"code": _write_statistics(word, ", ".join(numbers), slips) if numbers else ""})
    for pattern, write in _CODE:
        if found := re.search(pattern, behaviour.question, re.I):
            return Reply({"code": write(found, slips)})
    return Reply({"code": ""})


def _calculate(expression: str, slips: bool) -> str:
    return calculate_mentally(Finding(expression=expression)) if slips else expression


def _write_statistics(function: str, numbers: str, slips: bool) -> str:
    values = [number.strip() for number in numbers.split(",")]
    return f"import statistics\nstatistics.{function}([{', '.join(values[:-1] if slips else values)}])"


_Found = re.Match[str]
_CODE: tuple[tuple[str, Callable[[_Found, bool], str]], ...] = (
    (
        r"what (\d+) euros become in (\d+) years at (\d+) percent",
        lambda found, slips: _calculate(f"{found[1]} * (1 + {found[3]} / 100) ** {found[2]}", slips),
    ),
    (
        r"growth from (\d+) to (\d+) in percent",
        lambda found, slips: _calculate(f"({found[2]} - {found[1]}) / {found[1]} * 100", slips),
    ),
    (
        r"convert (\d+) (miles|pounds|inches) to",
        lambda found, slips: _calculate(f"{found[1]} * {_FACTORS[found[2].lower()]}", slips),
    ),
    (
        r"days from ([\d-]+) to ([\d-]+)",
        lambda found, slips: (
            "from datetime import date\n"
            f"(date.fromisoformat('{found[2]}') - date.fromisoformat('{found[1]}')).days{' + 1' if slips else ''}"
        ),
    ),
    (
        r"day of the week ([\d-]+) is",
        lambda found, slips: f"from datetime import date\ndate.fromisoformat('{found[1]}').strftime('%A')",
    ),
    (
        r"(average|median) of (\d[\d, ]+\d)",
        lambda found, slips: _write_statistics("mean" if found[1] == "average" else "median", found[2], slips),
    ),
    (
        r"population standard deviation of (\d[\d, ]+\d)",
        lambda found, slips: _write_statistics("stdev" if slips else "pstdev", found[1], False),
    ),
    (
        r"lines of (\S+) with Python's module (\w+)",
        lambda found, slips: f"import {found[2]}\nlen(open('{found[1]}').readlines())",
    ),
)


def summarize_outcome(chat: Chat, behaviour: Behaviour) -> Reply:
    lines = [line for line in _read_data(chat, "outcome").splitlines() if line.strip()]
    value = lines[-1].strip().strip("'\"") if lines else UNKNOWN
    return Reply({"computation_answer": _quote(value, behaviour)})


def compose_answer(chat: Chat, behaviour: Behaviour) -> Reply:
    """Join what the agents found, in the order of the question; failures are named."""
    summaries = _read_data(chat, "agent_summaries")
    parts = re.split(r"^(\w+): (succeeded|failed|skipped)", summaries, flags=re.MULTILINE)
    found = [text.strip() for status, text in zip(parts[2::3], parts[3::3], strict=True) if status == "succeeded"]
    lost = [
        f"{name} could not help{text.rstrip()}"
        for name, status, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
        if status != "succeeded"
    ]
    return Reply({"final_answer": _quote("; ".join([*found, *lost]) or UNKNOWN, behaviour)})


def _quote(text: str, behaviour: Behaviour) -> str:
    return text if behaviour.follows("quote_exact_values") else round_numbers(text)


def _read_data(chat: Chat, name: str) -> str:
    return _MARKS.sub("", chat.turns[-1].inputs.get(name, "")).strip()


REPLIES: dict[str, Callable[[Chat, Behaviour], Reply]] = {
    "request_planner": plan_agents,
    "sql_tables": choose_tables,
    "sql_query": write_query,
    "sql_review": review_query,
    "sql_rows": answer_from_rows,
    "api_call": plan_call,
    "api_adjustment": adjust_call,
    "api_reply": summarize_reply,
    "code": write_code,
    "code_outcome": summarize_outcome,
    "composer": compose_answer,
}
