"""The steps of the toy system, plan, solve, finalize, and the programs of the tutorial on own programs; without tools.

    solve(chat, behaviour).fields["result"]            # "142"
    sort_ticket(chat, behaviour).fields["category"]    # "billing", or if no prompt names it "Payment problem"

The programs of the tutorial are work and conclude, and a classifier of support tickets: it knows the subject of a
ticket by its words, but the names of the categories only from its prompt or its examples.
"""

import re
from dataclasses import replace

from mas.simulation.chat import Chat, Reply
from mas.simulation.skills.answer_form import add_unit, format_answer, reverse_list, wants_list
from mas.simulation.skills.behaviour import Behaviour
from mas.simulation.skills.mistakes import UNKNOWN, calculate_exactly, calculate_mentally
from mas.simulation.solving.self_contained import Finding
from mas.simulation.solving.shop import solve_shop_problem
from mas.simulation.solving.wording import parse_number

_TALKATIVE = 2.5  # logits: nothing in a program's first prompt asks for the answer alone
_NO_FORM = 0.5  # logits: the form is easier to forget if the steps do not mention it
_WORDS = {  # category → words of its tickets, names that the model gives it on its own
    "billing": (("invoice", "charged", "card", "price on"), ("Payment problem", "Invoice question", "billing")),
    "delivery": (("parcel", "courier", "tracking", "dispatched"), ("Shipping", "Late parcel", "delivery")),
    "login": (("password", "sign in", "locked out", "two-factor"), ("Account access", "Password reset", "login")),
    "refund": (("money back", "return it", "refund", "sent it back"), ("Return request", "Reimbursement", "refund")),
    "defect": (("broken", "cracked", "stopped working", "rattles"), ("Product fault", "Technical issue", "defect")),
}
_CATEGORIES = tuple(_WORDS)
_KNOWS, _GUESSES = 0.93, 0.0  # chance of the category's own name where the prompt names all of them, or none


def extract_heading(text: str, name: str) -> str:
    """Return the paragraphs under `NAME:`; empty if there is no such heading."""
    match = re.search(rf"^{name}:\n(.*?)(?=\n\n[A-Z]+:\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def plan(chat: Chat, behaviour: Behaviour) -> Reply:
    steps = [
        "Note every number with what it stands for.",
        "Do the calculation or comparison that the problem asks for.",
    ]
    if behaviour.follows("keep_the_plan_short_and_complete"):
        steps.append("Give the result in the form that is asked for.")
    elif behaviour.pick(2, "plan"):
        steps += [
            "Think about what else could matter.",
            "Estimate the result.",
            "Compare it with other shops.",
            "Sum up.",
        ]
    return Reply({"steps": steps})


def solve(chat: Chat, behaviour: Behaviour) -> Reply:
    working, result = _solve(behaviour, 0.0 if "form" in extract_heading(chat.request, "STEPS") else _NO_FORM)
    return Reply({"working": working, "result": result})


def _solve(behaviour: Behaviour, handicap: float) -> tuple[str, str]:
    """Return the working and the result."""
    finding = solve_shop_problem(
        behaviour.question, misreads=not behaviour.follows("check_the_right_row_and_column", handicap)
    )
    if finding is None:
        return "The problem is of no kind that I know.", UNKNOWN
    rounds = behaviour.follows("follow_the_rounding_asked_for", handicap)
    value = _calculate(replace(finding, decimals=finding.decimals if rounds else None), behaviour)
    if wants_list(behaviour.question) and not behaviour.follows("comma_separated_list_in_the_asked_order", handicap):
        value = reverse_list(value)
    elif parse_number(value) is not None and not behaviour.follows("leave_out_units_unless_asked", handicap):
        value = add_unit(behaviour.question, value)
    return f"{finding.why} {finding.expression or ''} = {value}", value


def _calculate(finding: Finding, behaviour: Behaviour) -> str:
    if finding.expression is None:
        return calculate_exactly(finding)
    if "one unit" in finding.why and not behaviour.follows("convert_units_with_the_tool"):
        finding = replace(finding, expression=re.sub(r"(?<=[*/] )(100?)0\b", r"\1", finding.expression))
    return calculate_exactly(finding) if behaviour.follows("use_the_calculator") else calculate_mentally(finding)


def finalize(chat: Chat, behaviour: Behaviour) -> Reply:
    given = extract_heading(chat.request, "RESULT") or UNKNOWN
    trace = extract_heading(chat.request, "WORKING") or "There was no working to report."
    return Reply({"final_answer": format_answer(behaviour.question, given, behaviour), "final_reasoning_trace": trace})


def work(chat: Chat, behaviour: Behaviour) -> Reply:
    return Reply({"working": _solve(behaviour, 0.0)[0]})


def conclude(chat: Chat, behaviour: Behaviour) -> Reply:
    given = chat.turns[-1].inputs.get("working", "").rpartition(" = ")[2].strip() or UNKNOWN
    if not behaviour.follows("answer_with_few_words_no_prose", _TALKATIVE):
        return Reply({"answer": f"From the working it follows that the answer is {given}."})
    return Reply({"answer": format_answer(behaviour.question, given, behaviour)})


def sort_ticket(chat: Chat, behaviour: Behaviour) -> Reply:
    """Return the category under the name that the prompt and the examples teach."""
    text = " ".join(chat.turns[-1].inputs.values()).lower()
    found = [category for category, (words, _) in _WORDS.items() if any(word in text for word in words)]
    if not found:
        return Reply(_fill(chat, "other"))
    category = found[behaviour.pick(len(found), "category")]
    if behaviour.draw("know the names of the categories") < _compute_chance(chat, behaviour):
        return Reply(_fill(chat, category))
    names = _WORDS[category][1]
    return Reply(_fill(chat, names[behaviour.pick(len(names), "name")]))


def _compute_chance(chat: Chat, behaviour: Behaviour) -> float:
    if behaviour.world.kind == "null":
        return _GUESSES
    taught = chat.prompt.lower() + " ".join(turn.reply.get("category", "") for turn in chat.demos)
    return _GUESSES + (_KNOWS - _GUESSES) * sum(name in taught for name in _CATEGORIES) / len(_CATEGORIES)


def _fill(chat: Chat, category: str) -> dict[str, object]:
    return {name: category if name == "category" else "It follows from the ticket's words." for name in chat.outputs}
