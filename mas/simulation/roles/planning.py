"""The planner and the three critics: what they plan, and what they let pass or send back.

plan(chat, conduct).fields["research_steps"]        # ["Read the file sales.csv and find …"]
"""

import re

from mas.simulation.reply import Reply
from mas.simulation.request import Chat
from mas.simulation.roles.expertise import expected_answer, task
from mas.simulation.skills.conduct import Conduct
from mas.simulation.skills.form import wants_unit
from mas.simulation.skills.slips import UNKNOWN
from mas.simulation.solving.material import NOTHING_FOUND, section
from mas.simulation.solving.wording import number

BACKGROUND = "Collect general background"
_FORM_STEP = "Give it in the form that is asked for."


def plan(chat: Chat, conduct: Conduct) -> Reply:
    expert_steps = ["Work out the answer to the question from the research results.", _FORM_STEP]
    research_steps = _research_steps(chat, conduct)
    if not conduct.follows("keep_the_plan_short_and_complete"):
        if conduct.pick(2, "plan") or not research_steps:
            expert_steps = expert_steps[:1]  # the form is forgotten
        else:
            research_steps.append(f"{BACKGROUND} on the matter.")
            expert_steps[1:] = ["Consider what else might matter.", "Weigh all of it."]
    expert_steps += [f"Before that, check the work again (revision {n})." for n in range(1, len(chat.turns))]
    return Reply({"research_steps": research_steps, "expert_steps": expert_steps})


def _research_steps(chat: Chat, conduct: Conduct) -> list[str]:
    if chat.file is None:
        return []
    if not conduct.follows("read_the_attached_file_first"):
        return [f"Look for general information to answer: {conduct.question}"]
    return [f"Read the file {chat.file} and find what is needed to answer: {conduct.question}"]


def review_plan(chat: Chat, conduct: Conduct) -> Reply:
    plan_text, steps = section(chat.request, "research steps"), section(chat.request, "expert steps")
    if chat.file is not None and chat.file not in plan_text:
        return _verdict(f"No research step reads the attached file {chat.file}: add one that does.", conduct)
    if steps and "form" not in steps:
        return _verdict("The expert steps do not end in the form that the question asks for: say which.", conduct)
    return _verdict("", conduct)


def review_research(chat: Chat, conduct: Conduct) -> Reply:
    topic, result = section(chat.request, "research topic"), section(chat.request, "research results") or chat.request
    if NOTHING_FOUND in result and BACKGROUND not in topic:
        return _verdict("The findings do not hold what the topic asks for: read the source again.", conduct)
    if re.search(r"\babout \d", result):
        return _verdict("The values are rounded: give them exactly as the source has them.", conduct)
    if "remember" in result:
        return _verdict("No source is named: read the attached file instead of answering from memory.", conduct)
    return _verdict("", conduct)


def review_answer(chat: Chat, conduct: Conduct) -> Reply:
    question, material = task(chat.request)
    given = section(chat.request, "expert's answer")
    expected = expected_answer(question, material)
    if _same(question, expected, given) or (expected == UNKNOWN and given not in ("", UNKNOWN)):
        return _verdict("", conduct)
    fault = "The answer does not follow from the research results: check column, row, calculation and rounding."
    return _verdict(fault, conduct)


def _same(question: str, expected: str, given: str) -> bool:
    """A unit too many is left to the finalizer."""
    bare = given if wants_unit(question) else re.sub(r"(?<=\d)\s+[^\d]*$", "", given)
    return expected == given or (number(bare) is not None and number(bare) == number(expected))


def _verdict(fault: str, conduct: Conduct) -> Reply:
    """`fault`: what is wrong with the work, as a critic who looks would see it; empty if nothing is."""
    if fault and conduct.follows("recompute_before_approving"):
        return Reply({"decision": "reject", "feedback": fault})
    if not fault and not conduct.follows("reject_only_real_faults"):
        return Reply({"decision": "reject", "feedback": "This could be worked out in more detail; do it again."})
    return Reply({"decision": "approve", "feedback": "The work is complete and follows from what it is based on."})
