"""The planner and the three critics.

plan(chat, behaviour).fields["research_steps"]        # ["Read the file sales.csv and find …"]
"""

import re

from mas.simulation.chat import Chat, Reply
from mas.simulation.roles.expert import compute_expected_answer, split_request
from mas.simulation.skills.answer_form import wants_unit
from mas.simulation.skills.behaviour import Behaviour
from mas.simulation.skills.mistakes import UNKNOWN
from mas.simulation.solving.material import NOTHING_FOUND, extract_section
from mas.simulation.solving.wording import parse_number

BACKGROUND = "Collect general background"
_FORM_STEP = "Give it in the form that is asked for."


def plan(chat: Chat, behaviour: Behaviour) -> Reply:
    expert_steps = ["Work out the answer to the question from the research results.", _FORM_STEP]
    research_steps = _research_steps(chat, behaviour)
    if not behaviour.follows("keep_the_plan_short_and_complete"):
        if behaviour.pick(2, "plan") or not research_steps:
            expert_steps = expert_steps[:1]  # the form is forgotten
        else:
            research_steps.append(f"{BACKGROUND} on the matter.")
            expert_steps[1:] = ["Consider what else might matter.", "Weigh all of it."]
    expert_steps += [f"Before that, check the work again (revision {n})." for n in range(1, len(chat.turns))]
    return Reply({"research_steps": research_steps, "expert_steps": expert_steps})


def _research_steps(chat: Chat, behaviour: Behaviour) -> list[str]:
    if chat.file is None:
        return []
    if not behaviour.follows("read_the_attached_file_first"):
        return [f"Look for general information to answer: {behaviour.question}"]
    return [f"Read the file {chat.file} and find what is needed to answer: {behaviour.question}"]


def review_plan(chat: Chat, behaviour: Behaviour) -> Reply:
    plan_text, steps = extract_section(chat.request, "research steps"), extract_section(chat.request, "expert steps")
    if chat.file is not None and chat.file not in plan_text:
        return _decide(f"No research step reads the attached file {chat.file}: add one that does.", behaviour)
    if steps and "form" not in steps:
        return _decide("The expert steps do not end in the form that the question asks for: say which.", behaviour)
    return _decide("", behaviour)


def review_research(chat: Chat, behaviour: Behaviour) -> Reply:
    topic = extract_section(chat.request, "research topic")
    result = extract_section(chat.request, "research results") or chat.request
    if NOTHING_FOUND in result and BACKGROUND not in topic:
        return _decide("The findings do not hold what the topic asks for: read the source again.", behaviour)
    if re.search(r"\babout \d", result):
        return _decide("The values are rounded: give them exactly as the source has them.", behaviour)
    if "remember" in result:
        return _decide("No source is named: read the attached file instead of answering from memory.", behaviour)
    return _decide("", behaviour)


def review_answer(chat: Chat, behaviour: Behaviour) -> Reply:
    question, material = split_request(chat.request)
    given = extract_section(chat.request, "expert's answer")
    expected = compute_expected_answer(question, material)
    if _is_equal(question, expected, given) or (expected == UNKNOWN and given not in ("", UNKNOWN)):
        return _decide("", behaviour)
    fault = "The answer does not follow from the research results: check column, row, calculation and rounding."
    return _decide(fault, behaviour)


def _is_equal(question: str, expected: str, given: str) -> bool:
    """Compare answers; a superfluous unit is left to the finalizer."""
    bare = given if wants_unit(question) else re.sub(r"(?<=\d)\s+[^\d]*$", "", given)
    return expected == given or (parse_number(bare) is not None and parse_number(bare) == parse_number(expected))


def _decide(fault: str, behaviour: Behaviour) -> Reply:
    """Approve or reject work with this fault, which an attentive critic would see; empty: without a fault."""
    if fault and behaviour.follows("recompute_before_approving"):
        return Reply({"decision": "reject", "feedback": fault})
    if not fault and not behaviour.follows("reject_only_real_faults"):
        return Reply({"decision": "reject", "feedback": "This could be worked out in more detail; do it again."})
    return Reply({"decision": "approve", "feedback": "The work is complete and follows from what it is based on."})
