"""The expert: works out the answer from the findings, with the calculator and the unit converter, or without.

solve_task(question, material, chat, behaviour)     # a Reply with the next call, or the answer and why
"""

import re
from dataclasses import replace

from mas.simulation.chat import Call, Chat, Reply
from mas.simulation.skills.answer_form import add_unit, reverse_list, wants_list, wants_unit
from mas.simulation.skills.behaviour import Behaviour
from mas.simulation.skills.mistakes import UNKNOWN, calculate_exactly, calculate_mentally, invent_value, miscount
from mas.simulation.solving.material import NOTHING_FOUND, answer_from_material, extract_question, extract_section
from mas.simulation.solving.self_contained import Finding, round_result

_NO_FORM = 0.8  # logits: the form is easier to forget if the steps do not mention it


def give_answer(chat: Chat, behaviour: Behaviour) -> Reply:
    question, material = split_request(chat.first_request)
    steps = extract_section(chat.first_request, "steps to follow")
    worked = solve_task(question, material, chat, behaviour, _NO_FORM if steps and "form" not in steps else 0.0)
    if isinstance(worked, Reply):
        return worked
    value, why = worked
    if not wants_list(question) and (
        wants_unit(question) or not behaviour.follows("leave_out_units_unless_asked", _NO_FORM)
    ):
        value = add_unit(question, value)
    return Reply({"expert_answer": value, "reasoning_trace": f"{why}{chat.revision_note} The answer is {value}."})


def solve_task(
    question: str, material: str, chat: Chat, behaviour: Behaviour, handicap: float = 0.0
) -> Reply | tuple[str, str]:
    """Return the next tool call, or the value and how it was found; `handicap`: logits, for the form of the answer."""
    misreads = not behaviour.follows("check_the_right_row_and_column")
    finding = answer_from_material(question, material, misreads and bool(material))
    if finding is None:
        return UNKNOWN, "The research results do not show the answer."
    call = _choose_call(finding)
    if call and call[0] in chat.tools and not behaviour.follows("use_tools_not_memory"):
        return invent_value(question), "This is known by heart."
    rounds = behaviour.follows("follow_the_rounding_asked_for", handicap)
    decimals = finding.decimals if rounds else None
    value = _calculate(finding, call, chat, behaviour, decimals)
    if isinstance(value, Reply):
        return value
    if misreads and not material and finding.answer is not None:
        value = miscount(value)
    if wants_list(question) and not behaviour.follows("comma_separated_list_in_the_asked_order", handicap):
        value = reverse_list(value)
    return value, finding.why


def _calculate(
    finding: Finding, call: Call | None, chat: Chat, behaviour: Behaviour, decimals: int | None
) -> Reply | str:
    if call is None:
        return calculate_exactly(finding)
    skill = "convert_units_with_the_tool" if finding.conversion else "use_the_calculator"
    finding = replace(finding, decimals=decimals)
    done = next((result for result in chat.turns[-1].results if result.name == call[0]), None)
    if done is not None:
        return calculate_exactly(finding) if done.is_failure else round_result(done.text, decimals)
    if not behaviour.follows(skill):
        return calculate_mentally(finding)
    if call[0] in chat.tools and not chat.must_answer:
        return Reply(calls=[call])
    return calculate_exactly(finding)


def split_request(request: str) -> tuple[str, str]:
    """Return the question and the research results of an expert's or a critic's request."""
    material = extract_section(request, "research results")
    parts = [part for part in re.split(r"^(?=\d+\. )", material, flags=re.MULTILINE) if NOTHING_FOUND not in part]
    material = "".join(parts).strip() or material
    return extract_question(request), "" if material == "(none)" or "No source is needed" in material else material


def compute_expected_answer(question: str, material: str) -> str:
    """Return the correct answer from the same findings."""
    finding = answer_from_material(question, material)
    return calculate_exactly(finding) if finding else UNKNOWN


def _choose_call(finding: Finding) -> Call | None:
    if finding.conversion:
        quantity, unit = finding.conversion
        return "unit_converter", {"quantity": quantity, "to_unit": unit}
    return ("calculator", {"expression": finding.expression}) if finding.expression else None
