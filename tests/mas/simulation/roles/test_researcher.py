"""The researcher's calls and findings, page by page, and what it says instead when it forgets a skill."""

from typing import Any

import pytest

from mas.simulation.chat import Reply, ToolResult
from mas.simulation.roles.researcher import read_attachment, research
from mas.simulation.skills.mistakes import invent_value
from mas.simulation.solving.material import NOTHING_FOUND
from tests.mas.simulation.roles.scripted import read, scripted

QUESTION = "What is the stock of Ink?"
NAMED = {"research_request": f"Read the file shop.csv and find: {QUESTION}", "file": "shop.csv"}
UNNAMED = {"research_request": f"Look for: {QUESTION}", "file": "shop.csv"}
SHOP = "row | item | stock\n1 | Pen | 8841\n2 | Ink | 1207"
HEAD = "Found in shop.csv"
NEEDLESS = "No source is needed: the question can be answered from its own text."


def page(text: str, number: int = 1, of: int = 1, **arguments: Any) -> ToolResult:
    return ToolResult(
        "read_file", {"file": "shop.csv", **arguments}, f"shop.csv: table; page {number} of {of}\n\n{text}"
    )


def find(*results: ToolResult, forgotten: tuple[str, ...] = (), **request: Any) -> Reply | str:
    asked = request.pop("requests", [NAMED])
    return read_attachment(read(request.pop("role", "researcher"), *asked, tools=["read_file"], results=results),
                           scripted(QUESTION, *forgotten))  # fmt: skip


def test_without_a_file_or_the_tool_to_read_it_no_source_is_needed() -> None:
    without_file = read("researcher", {"research_request": "?"}, tools=["read_file"])
    without_tool = read("researcher", NAMED, tools=["calculator"])
    assert [research(each, scripted("?")) for each in (without_file, without_tool)] == [Reply({"result": NEEDLESS})] * 2


def test_the_file_is_read_first_and_what_it_says_is_the_result() -> None:
    first = read("researcher", NAMED, tools=["read_file"])
    assert research(first, scripted(QUESTION)) == Reply(calls=[("read_file", {"file": "shop.csv"})])
    then = read("researcher", NAMED, tools=["read_file"], results=[page(SHOP)])
    assert research(then, scripted(QUESTION)) == Reply({"result": f"{HEAD}:\n\nitem | stock\nPen | 8841\nInk | 1207"})


@pytest.mark.parametrize(
    ("forgotten", "results", "said"),
    [
        (("use_tools_not_memory",), [], f"As far as I remember, it is {invent_value(QUESTION)}."),
        (("read_the_attached_file_first",), [], f"{NOTHING_FOUND} No source was at hand."),
        (("read_the_attached_file_first", "say_what_was_not_found"), [],
         f"It is most likely {invent_value(QUESTION)}."),
        (("quote_exact_values",), [page(SHOP)], f"{HEAD}:\n\nitem | stock\nPen | about 8800\nInk | about 1200"),
        (("check_the_right_row_and_column",), [page(SHOP)], f"{HEAD}:\n\nitem | stock\nPen | 1207\nInk | 8841"),
        ((), [page("It rained.")], f"{NOTHING_FOUND} The file shop.csv does not say it."),
        (("say_what_was_not_found",), [page("It rained.")], f"It is most likely {invent_value(QUESTION)}."),
        ((), [page(SHOP), ToolResult("read_file", {}, "read_file failed: damaged")],
         f"{NOTHING_FOUND} The file could not be read: read_file failed: damaged"),
        ((), [ToolResult("read_file", {}, "read_file failed: busy"), page(SHOP)],
         f"{HEAD}:\n\nitem | stock\nPen | 8841\nInk | 1207"),
    ],
)  # fmt: skip
def test_findings_and_what_a_forgetful_researcher_says(
    forgotten: tuple[str, ...], results: list[ToolResult], said: str
) -> None:
    assert find(*results, forgotten=forgotten) == said


def test_repeated_work_says_that_it_is_repeated() -> None:
    requests = [NAMED, {"research_request": "Use the following feedback: read it again.", "file": "shop.csv"}]
    assert find(page(SHOP), requests=requests) == (
        f"{HEAD} (done again, revision 1):\n\nitem | stock\nPen | 8841\nInk | 1207"
    )
    remembered = f"As far as I remember, it is {invent_value(QUESTION)} (done again, revision 1)."
    assert find(requests=requests, forgotten=("use_tools_not_memory",)) == remembered


@pytest.mark.parametrize(
    ("role", "request_", "handicap"),
    [("researcher", NAMED, 0.0), ("researcher", UNNAMED, 0.5), ("single", UNNAMED, 0.0)],
)
def test_a_file_is_easier_to_overlook_if_the_request_does_not_name_it(
    role: Any, request_: dict[str, str], handicap: float
) -> None:
    behaviour = scripted(QUESTION)
    read_attachment(read(role, request_, tools=["read_file"]), behaviour)
    assert behaviour.asked["read_the_attached_file_first"] == [handicap]


@pytest.mark.parametrize(
    ("number", "of", "following"), [(1, 1, None), (1, 2, 2), (2, 2, None), (7, 9, 8), (8, 9, None), (3, 2, None)]
)
def test_the_next_page_is_read_until_the_last_or_the_eighth(number: int, of: int, following: int | None) -> None:
    found = find(page("x", 1, of), page(SHOP, number, of, sheet="May"))
    if following is None:
        assert isinstance(found, str) and found.startswith(HEAD)
    else:
        assert found == Reply(calls=[("read_file", {"file": "shop.csv", "sheet": "May", "page": following})])


def test_no_page_is_read_once_the_agent_must_answer_or_the_header_names_none() -> None:
    last = page(f"{SHOP}\n\n[No more tool calls are allowed]", 1, 2)
    assert isinstance(find(last), str)
    body = ToolResult("read_file", {}, f"shop.csv: table\n\n{SHOP}\npage 1 of 2")
    assert isinstance(find(body), str)


def test_results_of_other_tools_are_no_pages() -> None:
    other = ToolResult("calculator", {}, "calculator failed: no")
    assert find(other) == Reply(calls=[("read_file", {"file": "shop.csv"})])
    assert find(page(SHOP), other) == f"{HEAD}:\n\nitem | stock\nPen | 8841\nInk | 1207"


def test_pages_are_joined_without_their_headers_and_repeated_column_names() -> None:
    sheet = 'sheet "May"; cells A1:B3'
    first, second = page(f"{sheet}\n{SHOP}", 1, 2), page(f"{sheet}\nrow | item | stock\n3 | Nib | 9055", 2, 2)
    rows = "Pen | 8841\nInk | 1207"
    assert find(first, second) == f"{HEAD}:\n\nSheet: May\nitem | stock\n{rows}\nNib | 9055"
    again = page(f"1 | Pen | 8841\n{sheet}", 2, 2)  # only headings at the top of a page are left out
    assert find(page(SHOP, 1, 2), again) == f"{HEAD}:\n\nitem | stock\n{rows}\nPen | 8841"
    only_headings = page(f"{sheet}\nrow | item | stock", 2, 2)
    assert find(first, only_headings) == f"{HEAD}:\n\nSheet: May\nitem | stock\n{rows}"


def test_a_page_without_a_header_is_read_whole() -> None:
    assert find(ToolResult("read_file", {}, f"{SHOP}\n\n3 | Nib | 9055")) == (
        f"{HEAD}:\n\nitem | stock\nPen | 8841\nInk | 1207"
    )


LISTING = "nr | member | bytes\n1 | old/x.csv | 90\n2 | new/x.csv | 80"


def find_in_archive(question: str, *results: ToolResult) -> Reply | str:
    return read_attachment(read("researcher", NAMED, tools=["read_file"], results=results), scripted(question))


def test_the_member_of_an_archive_that_the_question_names_is_opened_once() -> None:
    question = "What is the stock of Ink in new/x.csv?"
    member = Reply(calls=[("read_file", {"file": "shop.csv", "member": "new/x.csv"})])
    assert find_in_archive(question, page(LISTING)) == member
    opened = page(SHOP, member="new/x.csv")
    assert find_in_archive(question, page(LISTING), opened) == f"{HEAD}:\n\nitem | stock\nPen | 8841\nInk | 1207"
    for not_opened in (
        find_in_archive("What is the stock of Ink?", page(LISTING)),
        find_in_archive(question, page(LISTING.replace("nr |", "no |"))),
        find_in_archive(question, page(f"{LISTING}\n[No more tool calls are allowed]")),
    ):
        assert isinstance(not_opened, str)


def test_a_sound_is_known_by_its_first_line() -> None:
    said = "a-1.wav: sound, WAV, 0.5 seconds, 8201 Hz, 1 channel; page 1 of 1\n\nread_file does not listen to it."
    question = "What is its rate in Hz? Give only the number."
    found = find_in_archive(question, ToolResult("read_file", {}, said))
    assert found == f"{HEAD}:\n\nsound, WAV, 0.5 seconds, 8201 Hz, 1 channel"
