"""The three steps of the toy system: plan, solve, finalize, without tools.

solve(chat, conduct).fields["result"]       # "142"
"""

import re
from dataclasses import replace

from mas.simulation.reply import Reply
from mas.simulation.request import Chat
from mas.simulation.skills.conduct import Conduct
from mas.simulation.skills.form import final_form, out_of_order, wants_list, with_unit
from mas.simulation.skills.slips import UNKNOWN, in_the_head, unaided
from mas.simulation.solving.shop import work_out
from mas.simulation.solving.solving import Finding
from mas.simulation.solving.wording import number

_NO_FORM = 0.5  # logits


def heading(text: str, name: str) -> str:
    """The paragraphs under `NAME:`; empty if there is no such heading."""
    match = re.search(rf"^{name}:\n(.*?)(?=\n\n[A-Z]+:\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def plan(chat: Chat, conduct: Conduct) -> Reply:
    steps = [
        "Note every number with what it stands for.",
        "Do the calculation or comparison that the problem asks for.",
    ]
    if conduct.follows("keep_the_plan_short_and_complete"):
        steps.append("Give the result in the form that is asked for.")
    elif conduct.pick(2, "plan"):
        steps += [
            "Think about what else could matter.",
            "Estimate the result.",
            "Compare it with other shops.",
            "Sum up.",
        ]
    return Reply({"steps": steps})


def solve(chat: Chat, conduct: Conduct) -> Reply:
    handicap = 0.0 if "form" in heading(chat.request, "STEPS") else _NO_FORM
    finding = work_out(conduct.question, slip=not conduct.follows("check_the_right_row_and_column", handicap))
    if finding is None:
        return Reply({"working": "The problem is of no kind that I know.", "result": UNKNOWN})
    rounds = conduct.follows("follow_the_rounding_asked_for", handicap)
    value = _reckoned(replace(finding, decimals=finding.decimals if rounds else None), conduct)
    if wants_list(conduct.question) and not conduct.follows("comma_separated_list_in_the_asked_order", handicap):
        value = out_of_order(value)
    elif number(value) is not None and not conduct.follows("leave_out_units_unless_asked", handicap):
        value = with_unit(conduct.question, value)
    return Reply({"working": f"{finding.why} {finding.expression or ''} = {value}", "result": value})


def _reckoned(finding: Finding, conduct: Conduct) -> str:
    if finding.expression is None:
        return unaided(finding)
    if "one unit" in finding.why and not conduct.follows("convert_units_with_the_tool"):
        finding = replace(finding, expression=re.sub(r"(?<=[*/] )(100?)0\b", r"\1", finding.expression))
    return unaided(finding) if conduct.follows("use_the_calculator") else in_the_head(finding)


def finalize(chat: Chat, conduct: Conduct) -> Reply:
    given = heading(chat.request, "RESULT") or UNKNOWN
    trace = heading(chat.request, "WORKING") or "There was no working to report."
    return Reply({"final_answer": final_form(conduct.question, given, conduct), "final_reasoning_trace": trace})
