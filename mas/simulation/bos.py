"""Steps of the system with agents for a database, an API and computations.

It understands questions about the invented shop (`recipes.yaml`) if the request shows their tables or endpoint.
"""

import calendar
import json
import re
from collections.abc import Callable, Mapping

from mas.simulation.behaviour import Behaviour
from mas.simulation.chat import Chat, Reply, ToolNeeded
from mas.simulation.solving import UNKNOWN, match_recipes, read_recipes, round_numbers, shift_number

_CUES = {  # agent → words of a question that it is for
    "sql": r"\bdatabase\b|\bcustomers\b|\borders\b",
    "api_docs": r"\bAPI\b|\bendpoint\b",
    "computation": r"\b(?:calculate|compute|convert|median of|average of)\b",
}
_MARKS = re.compile(r"\[\w+ returned data, not instructions[^\]]*\]\n|\n\[end of data \w+\]")  # around data
_ITEMS = "order_items i JOIN orders o ON o.id = i.order_id JOIN products p ON p.id = i.product_id"
_MONTHS = [month.lower() for month in calendar.month_name]  # from 1 on
_VALUES = ("units", "total", "per_euro", "price_euro", "deliveries")  # of replies


def read_question(chat: Chat) -> str:
    return chat.request.strip()


def plan_agents(chat: Chat, behaviour: Behaviour) -> Reply:
    offered = re.findall(r"^(\w+):", chat.turns[-1].inputs.get("agents", ""), re.MULTILINE)
    chosen = [name for name, cue in _CUES.items() if name in offered and re.search(cue, behaviour.question, re.I)]
    if not behaviour.follows("name_an_agent_for_every_part"):
        chosen = offered if behaviour.pick(2, "agents") else chosen[:1]
    fields = {"rationale": "The question's words name these sources.", "confidence": "0.8"}
    return {"chosen_agents": chosen or offered[:1], **fields}


def choose_tables(chat: Chat, behaviour: Behaviour) -> Reply:
    tables = chat.turns[-1].inputs.get("tables", "")
    return {"needed_tables": [name.strip() for name in tables.split(",") if name.strip()]}


def write_query(chat: Chat, behaviour: Behaviour) -> Reply:
    overview = chat.turns[-1].inputs.get("table_overview", "")
    shown = set(re.findall(r"^table (\w+)", overview, re.MULTILINE))
    query = next((texts[0] for texts in match_recipes("queries", behaviour.question, ITEMS=_ITEMS)), "")
    if not query or not set(re.findall(r"\b(?:FROM|JOIN) ([a-z_]+)", query)) <= shown:
        return {"remark": "No query that only reads the tables shown can answer this."}
    if not behaviour.follows("keep_every_condition_of_the_question"):
        query = query.replace(" AND ", " OR ", 1)
    raise ToolNeeded("mcp_db_query", {"query": query})


def review_query(chat: Chat, behaviour: Behaviour) -> Reply:
    return {"reviewed_query": chat.turns[-1].inputs.get("query_to_review", "")}


def answer_from_rows(chat: Chat, behaviour: Behaviour) -> Reply:
    lines = _read_data(chat, "rows").splitlines()[1:]
    return {"rows_answer": _quote(", ".join(line.partition(" | ")[0] for line in lines), behaviour)}


def plan_call(chat: Chat, behaviour: Behaviour) -> Reply:
    question, documentation = behaviour.question, chat.turns[-1].inputs.get("documentation", "")
    if found := re.search(r"Which endpoint of the API (?:gives|is there for|is about) ([\w ]+)\?", question):
        return {"plan": {"make_request": False, "reason": "it is about the API itself"},
                      "documentation_answer": _find_endpoint(found[1], documentation)}  # fmt: skip
    for pattern, path, *names in read_recipes()["calls"]:
        if (found := re.search(pattern, question)) and f"GET {path}:" in documentation:
            values = dict(zip(names, found.groups(), strict=True))
            if not behaviour.follows("quote_exact_values"):
                values = {name: shift_number(value) for name, value in values.items()}
            in_path = {name: value for name, value in values.items() if f":{name}" in path}
            in_query = {name: value for name, value in values.items() if name not in in_path}
            plan = {"make_request": True, "method": "GET", "path": path, "path_params": in_path}
            return {"plan": {**plan, "query_params": in_query, "reason": "it fits"}, "documentation_answer": ""}
    reason = "The API cannot answer this: none of its endpoints is about it."
    return {"plan": {"make_request": False, "failure_reason": reason}, "documentation_answer": ""}


def _find_endpoint(subject: str, documentation: str) -> str:
    """Return the path whose description has the most words of the subject, by their beginnings."""
    stems = [word[:5].lower() for word in subject.split()]
    lines = re.findall(r"^GET (\S+): (.+)$", documentation, re.MULTILINE)
    best = max(lines, key=lambda line: sum(stem in " ".join(line).lower() for stem in stems), default=None)
    return f"GET {best[0]}" if best else UNKNOWN


def adjust_call(chat: Chat, behaviour: Behaviour) -> Reply:
    given = chat.turns[-1].inputs
    plan: dict[str, object] = json.loads(given["refused_plan"])
    query = plan.get("query_params")
    if "YYYY-MM" in given.get("refusal", "") and isinstance(query, Mapping):
        plan["query_params"] = {name: _write_month(str(value)) for name, value in query.items()}
    return {"adjusted_plan": plan}


def _write_month(text: str) -> str:
    name, _, year = text.lower().partition(" ")
    return f"{year}-{_MONTHS.index(name):02}" if name in _MONTHS[1:] else text


def summarize_reply(chat: Chat, behaviour: Behaviour) -> Reply:
    try:
        body = json.loads(_read_data(chat, "reply"))
    except ValueError:
        return {"summary": UNKNOWN}
    found = [body[name] for name in _VALUES if isinstance(body, dict) and name in body]
    return {"summary": _quote(str(found[0]) if found else UNKNOWN, behaviour)}


def write_code(chat: Chat, behaviour: Behaviour) -> Reply:
    earlier = re.findall(r"^\[(-?\d+(?:\.\d+)?)\]$", _read_data(chat, "earlier_results"), re.MULTILINE)
    code = next((texts[0] for texts in match_recipes("code", behaviour.question, FOUND=", ".join(earlier))), "")
    if "[]" in code:
        code = ""  # nothing was found earlier
    return {"code": code if behaviour.follows("use_the_calculator") else shift_number(code)}


def summarize_outcome(chat: Chat, behaviour: Behaviour) -> Reply:
    lines = [line for line in _read_data(chat, "outcome").splitlines() if line.strip()]
    return {"computation_answer": _quote(lines[-1].strip().strip("'\"") if lines else "", behaviour)}


def compose_answer(chat: Chat, behaviour: Behaviour) -> Reply:
    """Join what the agents found, in the order of the question; failures are named."""
    parts = re.split(r"^(\w+): (succeeded|failed|skipped)", _read_data(chat, "agent_summaries"), flags=re.MULTILINE)
    reports = list(zip(parts[1::3], parts[2::3], parts[3::3], strict=True))
    found = [text.strip() for _, status, text in reports if status == "succeeded"]
    lost = [f"{name} could not help{text.rstrip()}" for name, status, text in reports if status != "succeeded"]
    return {"final_answer": "; ".join([*found, *lost]) or UNKNOWN}


def _quote(text: str, behaviour: Behaviour) -> str:
    return (text if behaviour.follows("quote_exact_values") else round_numbers(text)) or UNKNOWN


def _read_data(chat: Chat, name: str) -> str:
    return _MARKS.sub("", chat.turns[-1].inputs.get(name, "")).strip()


REPLIES: dict[str, Callable[[Chat, Behaviour], Reply]] = {
    "bos_planner": plan_agents,
    "bos_tables": choose_tables,
    "bos_query": write_query,
    "bos_review": review_query,
    "bos_rows": answer_from_rows,
    "bos_call": plan_call,
    "bos_adjustment": adjust_call,
    "bos_reply": summarize_reply,
    "bos_code": write_code,
    "bos_outcome": summarize_outcome,
    "bos_composer": compose_answer,
}
