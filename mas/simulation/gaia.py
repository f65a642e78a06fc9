"""The agents of the GAIA system, and the agent that works alone."""

import re
from collections.abc import Callable
from dataclasses import replace

from mas.simulation import solving
from mas.simulation.behaviour import Behaviour
from mas.simulation.chat import Call, Chat, Reply, ToolNeeded, ToolResult
from mas.simulation.solving import UNKNOWN, Finding, compute, format_answer, invent_value, parse_number, solve

_NO_FORM = 0.8  # logits: the form is easier to forget if the steps do not mention it
_FILE_NOT_NAMED = 0.5  # logits: the file is easier to overlook if the request does not name it
_MAX_PAGES = 8
_NOTHING = "Nothing that answers the question was found."
_BACKGROUND = "Collect general background"
_PAGE = re.compile(r"\bpage (\d+) of (\d+)\b")
_MEMBER = re.compile(r"^\d+ \| (.+) \| \d+$", re.MULTILINE)  # of an archive's list


def read_question(chat: Chat) -> str:
    text = chat.first_request
    return text.partition("\n\nYour last reply")[0].strip() if chat.role == "single" else _extract_question(text)


def _extract_question(text: str) -> str:
    """Return the question in a message: under its label, after `answer:`, or the whole text."""
    if labelled := _extract_section(text, "question"):
        return labelled
    parts = re.split(r"\b(?:to answer|following question|topic or question)\b[^:\n]*:\s*", text)
    return parts[-1].partition("\n\nInclude using following file")[0].strip()


def _extract_section(text: str, label: str) -> str:
    """Return the paragraphs under a heading such as `The research results:`; empty if there is none."""
    heading = rf"^(?:The|#+)\s[^\n:]*\b{label}\b[^\n:]*:?[ \t]*\n"
    match = re.search(rf"{heading}(.*?)(?=\n\n(?:The|#+)\s[^\n:.]{{1,60}}:[ \t]*\n|\Z)", text, re.M | re.S | re.I)
    return match[1].strip() if match else ""


def plan(chat: Chat, behaviour: Behaviour) -> Reply:
    expert_steps = ["Work out the answer to the question from the research results."]
    research_steps = []
    if chat.file and behaviour.follows("read_the_attached_file_first"):
        research_steps = [f"Read the file {chat.file} and find what is needed to answer: {behaviour.question}"]
    elif chat.file:
        research_steps = [f"Look for general information to answer: {behaviour.question}"]
    if behaviour.follows("keep_the_plan_short_and_complete"):
        expert_steps.append("Give it in the form that is asked for.")
    elif research_steps and behaviour.pick(2, "plan"):
        research_steps.append(f"{_BACKGROUND} on the matter.")
    expert_steps += [f"Before that, check the work again (revision {n})." for n in range(1, len(chat.turns))]
    return {"research_steps": research_steps, "expert_steps": expert_steps}


def review_plan(chat: Chat, behaviour: Behaviour) -> Reply:
    steps = _extract_section(chat.request, "expert steps")
    if chat.file and chat.file not in _extract_section(chat.request, "research steps"):
        return _decide(f"No research step reads the attached file {chat.file}: add one that does.", behaviour)
    if steps and "form" not in steps:
        return _decide("The expert steps do not end in the form that the question asks for: say which.", behaviour)
    return _decide("", behaviour)


def review_research(chat: Chat, behaviour: Behaviour) -> Reply:
    result = _extract_section(chat.request, "research results") or chat.request
    if _NOTHING in result and _BACKGROUND not in chat.request:
        return _decide("The findings do not hold what the topic asks for: read the source again.", behaviour)
    if re.search(r"\babout \d", result):
        return _decide("The values are rounded: give them exactly as the source has them.", behaviour)
    if "I remember" in result:
        return _decide("No source is named: read the attached file instead of answering from memory.", behaviour)
    return _decide("", behaviour)


def review_answer(chat: Chat, behaviour: Behaviour) -> Reply:
    given = _extract_section(chat.request, "expert's answer")
    finding = solve(_extract_question(chat.request), _read_material(chat.request))
    expected = compute(finding) if finding else UNKNOWN
    same_number = parse_number(given) is not None and parse_number(given) == parse_number(expected)
    if expected in (given, UNKNOWN) or same_number:
        return _decide("", behaviour)
    fault = "The answer does not follow from the research results: check column, row, calculation and rounding."
    return _decide(fault, behaviour)


def _decide(fault: str, behaviour: Behaviour) -> Reply:
    """Approve work, or reject it for this fault if the critic is attentive; empty: no fault."""
    if fault and behaviour.follows("recompute_before_approving"):
        return {"decision": "reject", "feedback": fault}
    if not fault and not behaviour.follows("reject_only_real_faults"):
        return {"decision": "reject", "feedback": "This could be worked out in more detail; do it again."}
    return {"decision": "approve", "feedback": "The work is complete and follows from what it is based on."}


def research(chat: Chat, behaviour: Behaviour) -> Reply:
    if chat.file is None or "read_file" not in chat.tools:
        return {"result": "No source is needed: the question can be answered from its own text."}
    return {"result": _read_attachment(chat, chat.file, behaviour)}


def _read_attachment(chat: Chat, file: str, behaviour: Behaviour) -> str:
    """Return the findings as text; ToolNeeded: the file, or more of it, must be read first."""
    if not behaviour.follows("use_tools_not_memory"):
        return f"As far as I remember, it is {invent_value(behaviour.question)}{chat.revision_note}."
    named = chat.role == "single" or file in chat.first_request
    if not behaviour.follows("read_the_attached_file_first", 0.0 if named else _FILE_NOT_NAMED):
        return _report_gap(behaviour, "No source was at hand.")
    read = [result for result in chat.results if result.name == "read_file"]
    if not read:
        raise ToolNeeded("read_file", {"file": file})
    if read[-1].is_failure:
        return _report_gap(behaviour, f"The file could not be read: {read[-1].text}")
    if arguments := _choose_next_part(chat, file, behaviour.question, read):
        raise ToolNeeded("read_file", arguments)
    found = _join_pages(read)
    if not behaviour.follows("quote_exact_values"):
        found = solving.round_numbers(found)
    return f"Found in {file}{chat.revision_note}:\n\n{found}"


def _report_gap(behaviour: Behaviour, why: str) -> str:
    if behaviour.follows("say_what_was_not_found"):
        return f"{_NOTHING} {why}"
    return f"It is most likely {invent_value(behaviour.question)}."


def _choose_next_part(chat: Chat, file: str, question: str, read: list[ToolResult]) -> dict[str, object] | None:
    """Return the arguments for the next page, or for the archive's member that the question names."""
    if chat.must_answer:
        return None
    page = _PAGE.search(read[-1].text.partition("\n\n")[0])
    if page and int(page[1]) < min(int(page[2]), _MAX_PAGES):
        return {**read[-1].arguments, "page": int(page[1]) + 1}
    if any("member" in result.arguments for result in read):
        return None
    members = [name for result in read for name in _MEMBER.findall(result.text) if name in question]
    return {"file": file, "member": members[0]} if members else None


def _join_pages(read: list[ToolResult]) -> str:
    """Return the pages of a file or of an archive's member as one text, without repeated headings."""
    lines: list[str] = []
    for result in [result for result in read if "member" in result.arguments] or read:
        page = result.text.splitlines()
        lines += [line for line in page if line and not (line.startswith(('sheet "', "row | ")) and line in lines)]
    return "\n".join(lines)


def give_answer(chat: Chat, behaviour: Behaviour) -> Reply:
    steps = _extract_section(chat.first_request, "steps to follow")
    handicap = _NO_FORM if steps and "form" not in steps else 0.0
    value, why = _solve(behaviour.question, _read_material(chat.first_request), chat, behaviour, handicap)
    return {"expert_answer": value, "reasoning_trace": f"{why}{chat.revision_note} The answer is {value}."}


def _read_material(request: str) -> str:
    """Return the research results in a request, without those that found nothing."""
    material = _extract_section(request, "research results")
    parts = [part for part in re.split(r"^(?=\d+\. )", material, flags=re.MULTILINE) if _NOTHING not in part]
    return "".join(parts)


def _solve(question: str, material: str, chat: Chat, behaviour: Behaviour, handicap: float) -> tuple[str, str]:
    """Return the value and how it was found; `handicap`: logits, for the form of the answer."""
    finding = solve(question, material)
    if finding is None:
        return UNKNOWN, "The research results do not show the answer."
    call = _choose_call(finding)
    if call and call[0] in chat.tools and not behaviour.follows("use_tools_not_memory"):
        return invent_value(question), "This is known by heart."
    if not behaviour.follows("check_the_right_row_and_column"):
        finding = solving.misread(finding)
    if not behaviour.follows("follow_the_rounding_asked_for", handicap):
        finding = replace(finding, decimals=None)
    value = _calculate(finding, _choose_call(finding), chat, behaviour)
    if solving.wants_list(question) and not behaviour.follows("comma_separated_list_in_the_asked_order", handicap):
        value = ", ".join(reversed(value.split(", ")))
    return value, finding.why


def _choose_call(finding: Finding) -> Call | None:
    if finding.conversion:
        return "unit_converter", {"quantity": finding.conversion[0], "to_unit": finding.conversion[1]}
    return ("calculator", {"expression": finding.expression}) if finding.expression else None


def _calculate(finding: Finding, call: Call | None, chat: Chat, behaviour: Behaviour) -> str:
    if call is None:
        return compute(finding)
    done = next((result for result in chat.turns[-1].results if result.name == call[0]), None)
    number = re.search(rf"{solving.NUMBER}(?:e[-+]?\d+)?", done.text) if done and not done.is_failure else None
    if number:
        return solving.format_number(float(number[0].replace(",", "")), finding.decimals)
    if not behaviour.follows("convert_units_with_the_tool" if finding.conversion else "use_the_calculator"):
        return compute(finding, slips=True) if finding.expression else invent_value(behaviour.question)
    if done is None and call[0] in chat.tools and not chat.must_answer:
        raise ToolNeeded(*call)
    return compute(finding)


def finalize(chat: Chat, behaviour: Behaviour) -> Reply:
    given = _extract_section(chat.request, "expert's answer") or UNKNOWN
    reasoning = _extract_section(chat.request, "expert's reasoning") or "There was no reasoning to report."
    final = format_answer(behaviour.question, given, behaviour)
    return {"final_answer": final, "final_reasoning_trace": reasoning}


def answer_alone(chat: Chat, behaviour: Behaviour) -> Reply:
    """Research, solve and format in one conversation."""
    can_read = chat.file is not None and "read_file" in chat.tools
    material = _read_attachment(chat, chat.file or "", behaviour) if can_read else ""
    value, why = _solve(behaviour.question, material, chat, behaviour, 0.0)
    final = format_answer(behaviour.question, value, behaviour)
    return {"final_answer": final, "final_reasoning_trace": f"{why} The answer is {value}."}


REPLIES: dict[str, Callable[[Chat, Behaviour], Reply]] = {
    "planner": plan,
    "critic_planner": review_plan,
    "researcher": research,
    "critic_researcher": review_research,
    "expert": give_answer,
    "critic_expert": review_answer,
    "finalizer": finalize,
    "single": answer_alone,
}
