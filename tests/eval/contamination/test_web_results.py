"""What counts as a web result that gives a question away, on observations as the tools write them."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.contamination.web_results import find_web_leaks
from mas.tools.browser.session import build_result
from mas.tools.files.document import Document, Part, number_lines
from mas.tools.results import Excerpt, ResultKind, ToolResult
from mas.tools.web.page_view import FetchedPage, FoundPage, show_found_pages, show_page

QUESTION = "In which year was the lamp of the lighthouse at Marrow Point first lit by its three keepers?"
PASSAGE = "the lamp of the lighthouse at Marrow Point"
URL = "https://answers.example.org/17"


def step(result: str, name: str = "read_page", kind: ResultKind = "web_page", **inputs: Any) -> dict[str, Any]:
    """The span of a call; a plain text is the result of a tool that names no sources."""
    shown = (result if isinstance(result, ToolResult) else ToolResult(result, kind=kind)).to_observation(name)
    return {
        "kind": "tool",
        "name": name,
        "inputs": inputs,
        "outputs": {"observation": str(shown)},
        "attributes": shown.describe(),
    }


def sources(result: str, gold: str | None = "1874", question: str = QUESTION, **inputs: Any) -> list[str]:
    return [each["source"] for each in find_web_leaks(question, gold, [step(result, **inputs)])]


def page(text: str, url: str = URL, title: str = "Answers") -> ToolResult:
    header = f"{title}, dated 2024-05-06, {url}; page 1 of 1"
    shown = Excerpt(url, title, len(header) + 2, len(header) + 2 + len(text))
    return ToolResult(f"{header}\n\n{text}", kind="web_page", excerpts=[shown])


def browsed(snapshot: str, title: str = "Find", url: str = "https://find.example.org/", said: str = "") -> ToolResult:
    """As Playwright MCP 0.0.83 writes it."""
    shown = f"### Page\n- Page URL: {url}\n- Page Title: {title}\n### Snapshot\n```yaml\n{snapshot}\n```"
    return build_result(f"### Result\n{said}" if said else "", shown)


def test_gold_and_passage_in_one_page_are_a_finding_with_its_address() -> None:
    found = find_web_leaks(QUESTION, "1874", [step(page(f"Q: In which year was {PASSAGE} lit? A: 1874"))])
    assert found == [{"tool": "read_page", "source": URL}]


def test_a_label_is_not_looked_for() -> None:
    steps = [step(page(f"No refund: {PASSAGE}"))]
    assert find_web_leaks(QUESTION, "refund", steps, is_label=True) == []
    assert find_web_leaks(QUESTION, "refund", steps)


@pytest.mark.parametrize(
    "text",
    [
        f"{PASSAGE.upper()}: 1,874",
        "the&#32;lamp of the light&shy;house at Marrow&nbsp;Point &#49;874",
        "the lamp\nof the\n\n**lighthouse** at _Marrow_ Point … 1874.0",
        "the lamp of the \N{FULLWIDTH LATIN SMALL LETTER L}ighthouse at Márrow Point 187\N{FULLWIDTH DIGIT FOUR}",
    ],
    ids=["case", "entities", "lines and marks", "wide letters"],
)
def test_writing_it_otherwise_hides_nothing(text: str) -> None:
    assert sources(page(text)) == [URL]


def test_both_have_to_stand_in_the_same_entry_of_a_list() -> None:
    entries = [
        FoundPage("Marrow Point", "https://a.example.org/", f"More about {PASSAGE}"),
        FoundPage("Years", "https://b.example.org/", "1874 and 1901"),
        FoundPage(f"Quiz: {PASSAGE}", "https://c.example.org/x", "It was 1874"),
    ]
    apart = show_found_pages(f"Web search for {QUESTION!r}: 2 results", entries[:2])
    assert sources(apart, query=QUESTION) == []
    assert sources(page(apart)) != [], "a page has but one result"
    assert sources(show_found_pages("Web search for 'x': 3 results\n1 left out", entries)) == [
        "https://c.example.org/x"
    ]


def test_what_the_agent_has_asked_for_is_no_finding() -> None:
    """A search engine repeats the question, and has the answer somewhere on the page as well."""
    engine = f"https://find.example.org/?q={QUESTION.replace(' ', '+')}"
    assert sources(page(f"{QUESTION} 1. Old lamps: 1874", engine, "Results")) == []
    answers = FetchedPage(URL, "Answers", Document(f"Answers, {URL}", [Part(number_lines(["1874"]))]))
    assert sources(show_page(answers, 1, PASSAGE)) == []
    assert sources(browsed(f'- searchbox "Find" [ref=e2]: {QUESTION}\n- text: "1874"')) == []


def test_a_page_seen_in_parts_is_one_result() -> None:
    def parts(*results: ToolResult) -> list[dict[str, str]]:
        return find_web_leaks(QUESTION, "1874", [step(each) for each in results])

    first, second = page(f"Q: {PASSAGE}?"), page("A: 1874")
    assert parts(first, second) == parts(second, first) == [{"tool": "read_page", "source": URL}]
    assert parts(first, page("> 9 | Answer: 1874")) == [{"tool": "read_page", "source": URL}]
    assert parts(first, page("A: 1874", f"{URL}0")) == [], "another page"
    assert parts(page(f"Q: {PASSAGE}?", ""), page("A: 1874", "")) == [], "no address"


def test_an_excerpt_and_its_page_are_one_result() -> None:
    entries = [FoundPage("Quiz", URL, PASSAGE), FoundPage("Other", "https://a.example.org/", "1874")]
    search = step(show_found_pages("Web search for 'x': 2 results", entries), "tavily_tool")
    assert find_web_leaks(QUESTION, "1874", [search, step(page("It was 1901."))]) == []
    found = find_web_leaks(QUESTION, "1874", [search, step(page("It was 1874."))])
    assert found == [{"tool": "tavily_tool", "source": URL}]
    moved = URL.replace("https://", "http://www.")
    assert find_web_leaks(QUESTION, "1874", [search, step(page("It was 1874.", f"{moved}/#top"))]) == found
    assert find_web_leaks(QUESTION, "1874", [search, step(page("It was 1874.", f"{moved}/#/18"))]) == []


def test_a_title_may_put_the_question_and_is_no_answer() -> None:
    assert sources(page("In 1874.", title=f"{QUESTION} - Quiz")) == [URL]
    assert sources(page(PASSAGE, title="Quiz of 1874")) == []
    assert sources(show_found_pages(f"Web search for {QUESTION!r}: 0 results", []), "nothing") == []


def test_numbers_of_lines_are_not_the_pages() -> None:
    assert sources(page(f"> 1874 | {PASSAGE}")) == []
    split = "> 17 | the lamp of the lighthouse\n  18 | at Marrow Point\n  19 | 1874"
    assert sources(page(split)) == [URL]


def test_a_browsers_snapshot_is_read_across_its_marks() -> None:
    snapshot = (
        "- paragraph [ref=e3]:\n  - text: Who lit the lamp of\n"
        '  - link "the lighthouse at" [ref=e4] [cursor=pointer]:\n'
        '    - /url: /lights\n  - strong [ref=e5]: Marrow Point\n- text: "1874"'
    )
    assert sources(browsed(snapshot, "Quiz", URL), name="browser_click") == [URL]


def test_the_question_itself_may_say_the_answer() -> None:
    question = f"Was {PASSAGE} lit in 1874 or in 1901?"
    quoted = f"They ask: was {PASSAGE} lit in 1874 or in 1901?"
    assert sources(page(quoted), question=question) == []
    assert sources(page(f"{quoted} In 1874."), question=question) == [URL]


def test_a_list_is_there_if_all_its_items_are() -> None:
    assert sources(page(f"{PASSAGE}: Birch, then Ruth Odell"), "Ruth Odell, Birch") == [URL]
    assert sources(page(f"{PASSAGE}: Ruth Odell"), "Ruth Odell, Birch") == []


def test_a_gold_is_a_word_of_its_own() -> None:
    assert sources(page(f"{PASSAGE}: the keepers of 3 lamps"), "3") == [URL]
    assert sources(page(f"{PASSAGE}: Odellia"), "Odell") == []
    assert sources(page(f"{PASSAGE}: O-Dell!"), "Odell") == [URL]


def test_a_short_question_is_looked_for_as_a_whole() -> None:
    assert sources(page("Who lit Marrow Point? Birch"), "Birch", "Who lit Marrow Point?") == [URL]
    assert sources(page("Who lit Marrow? Point: Birch"), "Birch", "Who lit Marrow Point first?") == []
    assert sources(page("Sum? 5"), "5", "Sum?") == []


@pytest.mark.parametrize("gold", [None, "?", " ? "])
def test_without_a_gold_answer_nothing_is_listed(gold: str | None) -> None:
    assert sources(page(f"{PASSAGE} ? 1874"), gold) == []


def test_other_tools_are_not_looked_at() -> None:
    attached = step(f"{PASSAGE} 1874", "read_file", kind="file")
    model = {**step(page(f"{PASSAGE} 1874")), "kind": "lm"}
    assert find_web_leaks(QUESTION, "1874", [attached, model, {"kind": "tool", "name": "read_page"}]) == []


def test_a_page_is_listed_once_for_each_tool_that_showed_it() -> None:
    seen = page(f"{PASSAGE} 1874")
    found = find_web_leaks(QUESTION, "1874", [step(seen), step(seen), step(seen, "browser_navigate")])
    assert [each["tool"] for each in found] == ["read_page", "browser_navigate"]


def test_a_tool_of_somebodys_own_has_no_header() -> None:
    assert sources(f"Q: {PASSAGE}?\n\nA: 1874", name="lookup") == ["unknown"]
    assert sources(f"Q: {PASSAGE}?\n\nA: 1874", name="lookup", link=URL) == [URL]


@given(st.text(), st.text(), st.text(max_size=300))
def test_no_text_is_a_stumbling_block(question: str, gold: str, seen: str) -> None:
    find_web_leaks(question, gold, [step(seen), step(page(f"{seen} {question} {gold}"))])


@pytest.mark.parametrize("text", ["1 111 " * 3_300 + "1x", "1,1" * 6_600, "7 " * 9_900, f"{QUESTION} " * 200])
def test_no_page_takes_long(text: str) -> None:
    started = time.process_time()
    find_web_leaks(QUESTION, "1874", [step(page(f"{text[:19_800]} {PASSAGE}"))])
    assert time.process_time() - started < 2
