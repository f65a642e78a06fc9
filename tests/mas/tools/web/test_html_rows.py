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
