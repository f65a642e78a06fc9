"""The researcher: reads the attached file page by page and reports its findings, sometimes misread.

research(chat, behaviour).calls               # [("read_file", {"file": "sales.csv"})] or, once the file is read, []
research(chat, behaviour).fields["result"]    # "Found in sales.csv: …"
"""

import re

from mas.simulation.chat import Chat, Reply, ToolResult
from mas.simulation.skills.behaviour import Behaviour
from mas.simulation.skills.mistakes import invent_value, round_numbers
from mas.simulation.solving.material import NOTHING_FOUND, extract_findings, read_sound_header

_MAX_PAGES = 8
_LISTING = "nr | member | bytes"  # of an archive
_MEMBER = re.compile(r"^\d+ \| (.+) \| \d+$", re.MULTILINE)
_PAGE = re.compile(r"\bpage (\d+) of (\d+)\b", re.IGNORECASE)
_FILE_NOT_NAMED = 0.5  # logits: the file is easier to overlook if the request does not name it


def research(chat: Chat, behaviour: Behaviour) -> Reply:
    if chat.file is None or "read_file" not in chat.tools:
        return Reply({"result": "No source is needed: the question can be answered from its own text."})
    found = read_attachment(chat, behaviour)
    return found if isinstance(found, Reply) else Reply({"result": found})


def read_attachment(chat: Chat, behaviour: Behaviour) -> Reply | str:
    """Return the next call, or the findings as text."""
    assert chat.file is not None
    if not behaviour.follows("use_tools_not_memory"):
        return f"As far as I remember, it is {invent_value(behaviour.question)}{chat.revision_note}."
    named = chat.role == "single" or chat.file in chat.first_request
    if not behaviour.follows("read_the_attached_file_first", 0.0 if named else _FILE_NOT_NAMED):
        return _report_gap(behaviour, "No source was at hand.")
    read = [result for result in chat.results if result.name == "read_file"]
    if not read:
        return Reply(calls=[("read_file", {"file": chat.file})])
    if read[-1].is_failure:
        return _report_gap(behaviour, f"The file could not be read: {read[-1].text}")
    if following := _find_next_page(chat, read):
        return Reply(calls=[("read_file", {**read[-1].arguments, "page": following})])
    if member := _find_member(chat, behaviour.question, read):
        return Reply(calls=[("read_file", {"file": chat.file, "member": member})])
    return _report_findings(chat, behaviour, read)


def _report_findings(chat: Chat, behaviour: Behaviour, read: list[ToolResult]) -> str:
    misread = not behaviour.follows("check_the_right_row_and_column")
    found = extract_findings(behaviour.question, _join_pages(read), misread)
    if NOTHING_FOUND in found:
        return _report_gap(behaviour, f"The file {chat.file} does not say it.")
    if not behaviour.follows("quote_exact_values"):
        found = round_numbers(found)
    return f"Found in {chat.file}{chat.revision_note}:\n\n{found}"


def _report_gap(behaviour: Behaviour, why: str) -> str:
    if behaviour.follows("say_what_was_not_found"):
        return f"{NOTHING_FOUND} {why}"
    return f"It is most likely {invent_value(behaviour.question)}."


def _join_pages(read: list[ToolResult]) -> str:
    """Return the pages of a file, or of a member of an archive, as one text.

    Page headers are left out, except that of a sound, which has nothing else; so are repeated column headings.
    """
    lines: list[str] = []
    for result in [result for result in read if "member" in result.arguments] or read:
        header, parted, body = result.text.partition("\n\n")
        page = (body if parted and _PAGE.search(header) else result.text).splitlines()
        if sound := read_sound_header(result.text):
            page = [sound]
        while lines and page and page[0].startswith(("sheet ", "row | ")) and page[0] in lines:
            page.pop(0)
        lines += page
    return "\n".join(lines)


def _find_member(chat: Chat, question: str, read: list[ToolResult]) -> str | None:
    """Return the member of an archive that the question names, once the list of members was read."""
    if chat.must_answer or any("member" in result.arguments for result in read):
        return None
    listed = [name for result in read if _LISTING in result.text for name in _MEMBER.findall(result.text)]
    return next((name for name in listed if name in question), None)


def _find_next_page(chat: Chat, read: list[ToolResult]) -> int | None:
    """Return the next page to read, if the newest result says that there are more."""
    match = _PAGE.search(read[-1].text.partition("\n\n")[0])
    if not match or chat.must_answer or int(match[1]) >= min(int(match[2]), _MAX_PAGES):
        return None
    return int(match[1]) + 1
