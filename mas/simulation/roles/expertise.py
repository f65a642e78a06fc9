"""The expert: works the answer out from the findings, with the calculator and the unit converter or in the head.

work(question, material, chat, conduct)     # a Reply with the next call, or the answer and why
"""

import re
from dataclasses import replace

from mas.simulation.reply import Call, Reply, failed, no_more_tools, revision
from mas.simulation.request import Chat
from mas.simulation.skills.conduct import Conduct
from mas.simulation.skills.form import out_of_order, wants_list, wants_unit, with_unit
from mas.simulation.skills.slips import UNKNOWN, in_the_head, made_up, miscounted, unaided
from mas.simulation.solving.material import NOTHING_FOUND, answer, question_in, section
from mas.simulation.solving.solving import Finding, rounded

_NO_FORM = 0.8  # logits: steps that do not speak of the form make it easier to forget


def give_answer(chat: Chat, conduct: Conduct) -> Reply:
    question, material = task(chat.first_request)
    steps = section(chat.first_request, "steps to follow")
    worked = work(question, material, chat, conduct, _NO_FORM if steps and "form" not in steps else 0.0)
    if isinstance(worked, Reply):
        return worked
    value, why = worked
    if not wants_list(question) and (
        wants_unit(question) or not conduct.follows("leave_out_units_unless_asked", _NO_FORM)
    ):
        value = with_unit(question, value)
    return Reply({"expert_answer": value, "reasoning_trace": f"{why}{revision(chat)} The answer is {value}."})


def work(question: str, material: str, chat: Chat, conduct: Conduct, handicap: float = 0.0) -> Reply | tuple[str, str]:
    """The next tool call, or the value and how it was found; `handicap` in logits on matters of form."""
    slip = not conduct.follows("check_the_right_row_and_column")
    finding = answer(question, material, slip and bool(material))
    if finding is None:
        return UNKNOWN, "The research results do not show the answer."
    call = _tool_for(finding)
    if call and call[0] in chat.tools and not conduct.follows("use_tools_not_memory"):
        return made_up(question), "This is known by heart."
    rounds = conduct.follows("follow_the_rounding_asked_for", handicap)
    decimals = finding.decimals if rounds else None
    value = _worked_out(finding, call, chat, conduct, decimals)
    if isinstance(value, Reply):
        return value
    if slip and not material and finding.answer is not None:
        value = miscounted(value)
    if wants_list(question) and not conduct.follows("comma_separated_list_in_the_asked_order", handicap):
        value = out_of_order(value)
    return value, finding.why


def _worked_out(finding: Finding, call: Call | None, chat: Chat, conduct: Conduct, decimals: int | None) -> Reply | str:
    if call is None:
        return unaided(finding)
    skill = "convert_units_with_the_tool" if finding.conversion else "use_the_calculator"
    finding = replace(finding, decimals=decimals)
    done = next((result for result in chat.turns[-1].results if result.name == call[0]), None)
    if done is not None:
        return unaided(finding) if failed(done) else rounded(done.text, decimals)
    if not conduct.follows(skill):
        return in_the_head(finding)
    if call[0] in chat.tools and not no_more_tools(chat):
        return Reply(calls=[call])
    return unaided(finding)


def task(request: str) -> tuple[str, str]:
    """The question and the research results of an expert's or a critic's request."""
    material = section(request, "research results")
    parts = [part for part in re.split(r"^(?=\d+\. )", material, flags=re.MULTILINE) if NOTHING_FOUND not in part]
    material = "".join(parts).strip() or material
    return question_in(request), "" if material == "(none)" or "No source is needed" in material else material


def expected_answer(question: str, material: str) -> str:
    """What a careful reader of the same findings would answer."""
    finding = answer(question, material)
    return unaided(finding) if finding else UNKNOWN


def _tool_for(finding: Finding) -> Call | None:
    if finding.conversion:
        quantity, unit = finding.conversion
        return "unit_converter", {"quantity": quantity, "to_unit": unit}
    return ("calculator", {"expression": finding.expression}) if finding.expression else None
