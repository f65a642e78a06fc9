"""The steps of the toy system, and the programs of the tutorial on own programs; without tools.

Those are work and conclude, and a classifier of support tickets: it knows the subject of a ticket by its words, but the
names of the categories only from its prompt or its examples.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import replace

from mas.simulation.behaviour import Behaviour
from mas.simulation.chat import Chat, Reply
from mas.simulation.solving import UNKNOWN, Finding, compute, format_answer, misread, wants_list
from mas.simulation.solving import solve as solve_question

_TALKATIVE = 2.5  # logits: nothing in a program's first prompt asks for the answer alone
_NO_FORM = 0.5  # logits: the form is easier to forget if the steps do not mention it
_WORDS = {  # category → words of its tickets, names that the model gives it on its own
    "billing": (("invoice", "charged", "card", "price on"), ("Payment problem", "Invoice question", "billing")),
    "delivery": (("parcel", "courier", "tracking", "dispatched"), ("Shipping", "Late parcel", "delivery")),
    "login": (("password", "sign in", "locked out", "two-factor"), ("Account access", "Password reset", "login")),
    "refund": (("money back", "return it", "refund", "sent it back"), ("Return request", "Reimbursement", "refund")),
    "defect": (("broken", "cracked", "stopped working", "rattles"), ("Product fault", "Technical issue", "defect")),
}
_KNOWS = 0.93  # chance of a category's own name where the prompt names all of them
_UNITS = re.compile(r"\* (100?)0 -")  # how many small units a large one has
_LIMITS: dict[str, Callable[[float, float], bool]] = {
    "more than": operator.gt, "fewer than": operator.lt, "at least": operator.ge, "at most": operator.le
}  # fmt: skip


def read_question(chat: Chat) -> str:
    return _extract_heading(chat.first_request, "PROBLEM") or chat.first_request.strip()


def _extract_heading(text: str, name: str) -> str:
    """Return the paragraphs under `NAME:`; empty if there is no such heading."""
    match = re.search(rf"^{name}:\n(.*?)(?=\n\n[A-Z]+:\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def plan(chat: Chat, behaviour: Behaviour) -> Reply:
    steps = ["Note every number with what it stands for.", "Do the calculation or comparison that is asked for."]
    if behaviour.follows("keep_the_plan_short_and_complete"):
        steps.append("Give the result in the form that is asked for.")
    elif behaviour.pick(2, "plan"):
        steps += ["Think about what else could matter.", "Estimate the result.", "Compare it with other shops."]
    return {"steps": steps}


def solve(chat: Chat, behaviour: Behaviour) -> Reply:
    working, result = _solve(behaviour, 0.0 if "form" in _extract_heading(chat.request, "STEPS") else _NO_FORM)
    return {"working": working, "result": result}


def finalize(chat: Chat, behaviour: Behaviour) -> Reply:
    given = _extract_heading(chat.request, "RESULT") or UNKNOWN
    trace = _extract_heading(chat.request, "WORKING") or "There was no working to report."
    return {"final_answer": format_answer(behaviour.question, given, behaviour), "final_reasoning_trace": trace}


def work(chat: Chat, behaviour: Behaviour) -> Reply:
    return {"working": _solve(behaviour, 0.0)[0]}


def conclude(chat: Chat, behaviour: Behaviour) -> Reply:
    given = chat.turns[-1].inputs.get("working", "").rpartition(" = ")[2].strip() or UNKNOWN
    if not behaviour.follows("answer_with_few_words_no_prose", _TALKATIVE):
        return {"answer": f"From the working it follows that the answer is {given}."}
    return {"answer": format_answer(behaviour.question, given, behaviour)}


def _solve(behaviour: Behaviour, handicap: float) -> tuple[str, str]:
    """Return the working and the result."""
    problem = behaviour.question
    finding = _add_prices(problem) or _rank(problem) or _count_stalls(problem) or solve_question(problem)
    if finding is None:
        return "The problem is of no kind that I know.", UNKNOWN
    if not behaviour.follows("check_the_right_row_and_column", handicap):
        finding = misread(finding)
    if _UNITS.search(finding.expression) and not behaviour.follows("convert_units_with_the_tool"):
        finding = replace(finding, expression=_UNITS.sub(r"* \1 -", finding.expression))
    if not behaviour.follows("follow_the_rounding_asked_for", handicap):
        finding = replace(finding, decimals=None)
    value = compute(finding, slips=bool(finding.expression) and not behaviour.follows("use_the_calculator"))
    if wants_list(behaviour.question) and not behaviour.follows("comma_separated_list_in_the_asked_order", handicap):
        value = ", ".join(reversed(value.split(", ")))
    return f"{finding.why} {finding.expression} = {value}", value


def _add_prices(problem: str) -> Finding | None:
    prices = re.findall(r"(\w+): (\d+) crowns each", problem)
    counts = [(re.search(rf"\b(\d+) {good}\b", problem), price) for good, price in prices]
    expression = " + ".join(f"{bought[1]} * {price}" for bought, price in counts if bought)
    return Finding(expression=expression, why="Amounts times prices, added up.") if expression else None


def _rank(problem: str) -> Finding | None:
    log = re.search(r"sold in a week: ([^.]*)\.", problem)
    sold = {name: int(count) for name, count in re.findall(r"([A-Z]\w+) (\d+)", log[1])} if log else {}
    if not sold:
        return None
    ordered = sorted(sold, key=lambda name: sold[name], reverse="from the most" in problem)
    if limit := re.search(r"more than (\d+)", problem):
        ordered = sorted(name for name, count in sold.items() if count > int(limit[1]))
    return Finding(answer=", ".join(ordered), why=f"{len(ordered)} names, in the order asked for.")


def _count_stalls(problem: str) -> Finding | None:
    sold = re.search(r"sold these numbers of \w+: ([\d, ]+)\.", problem)
    limits = re.findall(rf"({'|'.join(_LIMITS)}) (\d+)", problem)
    counts = [float(count) for count in sold[1].split(", ")] if sold else []
    fitting = [count for count in counts if all(_LIMITS[word](count, float(limit)) for word, limit in limits)]
    return Finding(answer=str(len(fitting)), why=f"{len(fitting)} of them fit.") if counts and limits else None


def sort_ticket(chat: Chat, behaviour: Behaviour) -> Reply:
    """Return the category under the name that the prompt and the examples teach."""
    text = " ".join(chat.turns[-1].inputs.values()).lower()
    found = [category for category, (words, _) in _WORDS.items() if any(word in text for word in words)]
    category = found[behaviour.pick(len(found), "category")] if found else "other"
    taught = chat.prompt.lower() + " ".join(turn.reply.get("category", "") for turn in chat.demos)
    share = sum(name in taught for name in _WORDS) / len(_WORDS) if behaviour.world.rules.weight else 0.0
    if found and behaviour.draw("know the names of the categories") >= _KNOWS * share:
        category = _WORDS[category][1][behaviour.pick(3, "name")]
    return {name: category if name == "category" else "It follows from the ticket's words." for name in chat.outputs}


REPLIES: dict[str, Callable[[Chat, Behaviour], Reply]] = {
    "toy_plan": plan,
    "toy_solve": solve,
    "toy_finalize": finalize,
    "toy_work": work,
    "toy_conclude": conclude,
    "toy_ticket": sort_ticket,
}
