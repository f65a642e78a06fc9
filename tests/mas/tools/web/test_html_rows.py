"""HTML as lines: tables with every cell in its column, and nothing that a page can hold breaks it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mas.tools.web.html_rows import Row, list_headings, read_rows, select_section


def texts(html: str) -> list[str]:
    return [row.text for row in read_rows(html)]


def test_spans_are_filled_in() -> None:
    html = (
        "<table><tr><th>a</th><th>b</th><th>c</th></tr><tr><td rowspan=3>1</td><td colspan=2>2</td></tr>"
        "<tr><td rowspan=2>3</td><td>4</td></tr><tr><td>5</td></tr></table>"
    )
    assert texts(html)[2:] == ["| 1 | 2 | 2 |", "| 1 | 3 | 4 |", "| 1 | 3 | 5 |"]


@pytest.mark.parametrize("span", ["0", "x", "-1", "", "1", " 1 ", "\u0662", "1.5"])
def test_a_span_that_is_none_is_one_cell(span: str) -> None:
    html = (
        f"<table><tr><td colspan='{span}' rowspan='{span}'>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>"
    )
    assert texts(html) == ["| a | b |", "| c | d |"]


def test_absurd_spans_are_bounded() -> None:
    html = "<table>" + "<tr><td rowspan=999999 colspan=999999>x</td></tr>" * 3_000 + "</table>"
    assert sum(len(text) for text in texts(html)) < 1_000_000


def test_a_table_in_a_cell_stays_in_the_cell() -> None:
    html = "<table><tr><td>a<table><tr><td>b</td><td>c</td></tr></table></td><td>d</td></tr></table>"
    assert texts(html) == ["| a / b / c | d |"] or texts(html) == ["| ab / c | d |"]


def test_text_between_blocks_and_inline_marks_are_kept_in_order() -> None:
    html = "lead <b>bold</b> and<p>one <i>two</i> three</p>tail<div>four<br>five</div><pre>x\n  y</pre>"
    assert texts(html) == ["lead bold and", "one two three", "tail", "four", "five", "x", "  y"]


def test_sections_are_found_by_their_name_in_any_case() -> None:
    found = read_rows("<h2>A</h2><p>1</p><h3>B</h3><p>2</p><h2>C  d</h2><p>3</p>")
    assert list_headings(found) == ["A", "B", "C d"]
    assert select_section(found, "a") == [Row("## A", 2), Row("1"), Row("### B", 3), Row("2")]
    assert select_section(found, " c D ") == [Row("## C d", 2), Row("3")]
    assert select_section(found, "E") is None


@pytest.mark.parametrize(
    "html",
    ["", " ", "<!-- -->", "<", "<table>", "<p>\x00</p>", "<br>" * 3, "<td>", "</div></div>x", "a<br>&#1;&#xD800;\x01"],
)
def test_odd_html_is_no_error(html: str) -> None:
    read_rows(html)


_TAGS = [
    "table",
    "tr",
    "td",
    "th",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "p",
    "h2",
    "div",
    "br",
    "pre",
    "sup",
    "caption",
    "span",
]


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.one_of(st.sampled_from([f"<{tag}>" for tag in _TAGS] + [f"</{tag}>" for tag in _TAGS]), st.text(max_size=5))
    )
)
def test_any_soup_of_tags_gives_lines(parts: list[str]) -> None:
    found = read_rows("".join(parts))
    assert all(row.text and "\n" not in row.text for row in found)


def test_lists_definitions_and_lines_of_code_keep_their_form() -> None:
    html = (
        "<ul><li>a<ol><li>b</li><!-- c --><li>c</li></ol></li><li>d</li></ul><dl><dt>term</dt><dd>meaning</dd></dl>"
        "<pre>if x:\n    y \n</pre><h3>End  of</h3>tail"
    )
    assert texts(html) == [
        "- a", "  1. b", "  2. c", "- d", "term:", "meaning", "if x:", "    y", "### End of", "tail"
    ]  # fmt: skip


def test_a_section_ends_at_the_next_heading_of_its_level_or_above() -> None:
    rows = [Row("intro"), Row("## A", 2), Row("a"), Row("### B", 3), Row("b"), Row("### C", 3), Row("# D", 1), Row("d")]
    sections = {name: select_section(rows, name) for name in ("a", "B", "c", "# D", "E")}
    assert {name: found and [row.text for row in found] for name, found in sections.items()} == {
        "a": ["## A", "a", "### B", "b", "### C"], "B": ["### B", "b"], "c": ["### C"], "# D": ["# D", "d"], "E": None
    }  # fmt: skip


def test_a_table_has_its_caption_its_header_and_a_ruler_once() -> None:
    html = (
        "<table><caption>Towns</caption><tr><th>a</th><th>b</th></tr><tr><th>c</th><th>d</th></tr>"
        "<tr><th>e</th><td>f|g</td></tr><tr><td></td><td></td></tr></table>"
    )
    assert texts(html) == ["Towns", "| a | b |", "| c | d |", "| --- | --- |", "| e | f\\|g |"]
    assert texts("<table>loose</table>") == ["loose"]
