"""HTML as lines: tables with every cell in its column, and nothing that a page can hold breaks it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mas.tools.files.tasks import unpack
from mas.tools.results import ToolError
from mas.tools.web import html_rows
from mas.tools.web.html_rows import (
    Row,
    list_headings,
    list_links,
    read_rows,
    read_wiki_text,
    remove_unstorable,
    select_section,
)


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
    assert texts(html) == ["| a / b / c | d |"]


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


@pytest.mark.parametrize(
    "gone",
    [
        "<sup class='reference'>x</sup>", "<span class='mw-editsection'>x</span>", "<div class='a navbox b'>x</div>",
        "<i class=noprint>x</i>", "<i class=metadata>x</i>", "<i class=mw-empty-elt>x</i>",
        "<i class=mw-jump-link>x</i>",
        "<i class=mw-cite-backlink>x</i>", "<i class=shortdescription>x</i>", "<div id=toc>x</div>",
        "<b style='color:red; display : none'>x</b>", "<style>x</style>", "<script>x</script>",
        "<noscript>x</noscript>",
        "<div class=navbox><div class=navbox>x</div></div>",
    ],
)  # fmt: skip
def test_what_is_not_for_readers_is_left_out_and_the_text_around_it_kept(gone: str) -> None:
    assert " ".join(texts(f"<p>a {gone} b</p>")) == "a b"


def test_other_marks_above_the_line_and_boxes_are_kept() -> None:
    assert texts("<p>2<sup>3</sup> <span class=nav id=x style='display:block'>y</span></p>") == ["23 y"]


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("<math alttext='{x^2}'><mi>junk</mi></math>", "a {x^2} b"),
        ("<mi>junk</mi><img alt='y'>", "a y b"),
        ("<mi>junk</mi>", "a b"),
    ],
)
def test_a_formula_is_shown_as_it_is_written(formula: str, shown: str) -> None:
    assert texts(f"<p>a <span class='mwe-math-element'>{formula}</span> b</p>") == [shown]


def test_a_reference_shows_the_address_that_it_leads_to() -> None:
    link = "<a class='external text' href='https://a.example/'>Portrait</a>"
    assert texts(f"<ol class=references><li>{link}, 2001</li><li>Own</li></ol><p>{link}.</p>") == [
        "1. Portrait <https://a.example/>, 2001", "2. Own", "Portrait."
    ]  # fmt: skip


def test_lines_and_blocks_in_a_cell_are_parts_of_it() -> None:
    cell = "a<br>b<ul><li>c</li><li>d</li></ul><p>e</p>f<div>g</div>h <b>i</b> j"
    for tag in ("td", "th"):
        found = texts(f"<table><tr><{tag}>{cell}</{tag}><td>z</td></tr></table>")
        assert found == ["| a / b / c / d / e / f / g / h i j | z |"]


@pytest.mark.parametrize(("depth", "found"), [(59, ["a", "b"]), (60, ["a", "b"]), (61, ["ab"])])
def test_blocks_are_told_apart_down_to_a_depth(depth: int, found: list[str]) -> None:
    assert texts(f"{'<div>' * depth}<p>a</p><p>b</p>{'</div>' * depth}") == found


def test_a_cell_spans_at_most_a_hundred_columns_and_a_thousand_rows() -> None:
    for columns, width in ((100, 100), (101, 100), (9_999_999, 100)):
        assert texts(f"<table><tr><td colspan={columns}>a</td></tr></table>") == [f"|{' a |' * width}"]
    rows = "<tr><td rowspan=1001>a</td><td>b</td></tr>" + "<tr><td>c</td></tr>" * 1_000
    found = texts(f"<table>{rows}</table>")
    assert found[:2] == ["| a | b |", "| a | c |"] and found[-2:] == ["| a | c |", "| c |"]


def test_a_span_that_ends_a_row_is_filled_in_too() -> None:
    html = (
        "<table><tr><td>1</td><td rowspan=2>2</td><td rowspan=3>3</td></tr><tr><td>4</td></tr><tr><td>5</td><td>6</td>"
    )
    assert texts(f"{html}</tr></table>") == ["| 1 | 2 | 3 |", "| 4 | 2 | 3 |", "| 5 | 6 | 3 |"]


@pytest.mark.parametrize(("most", "rows"), [(6, 3), (5, 2), (4, 2), (3, 1)])
def test_a_table_is_cut_after_so_many_cells(most: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_rows, "MAX_CELLS", most)
    assert texts(f"<table>{'<tr><td>a</td><td>b</td></tr>' * 3}</table>") == ["| a | b |"] * rows


def test_rows_of_all_parts_of_a_table_come_in_their_order() -> None:
    html = (
        "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>b</td></tr><tr><th>c</th></tr></tbody>"
        "<tfoot><tr><td>d</td></tr></tfoot></table>"
    )
    assert texts(html) == ["| a |", "| --- |", "| b |", "| c |", "| d |"]
    assert texts("<table><tr><th>a</th><th>b</th></tr><tr><th></th></tr></table>") == ["| a | b |", "| --- |"]
    assert texts("<table><tr></tr><tr><th>a</th></tr></table>") == ["| a |"], "a row without cells is no header"


@pytest.mark.parametrize(
    ("html", "mended"),
    [
        ("&#65;&#x41;&#X1F600;&#1114111;", "&#65;&#x41;&#X1F600;&#1114111;"),
        ("&#1114112;&#x110000;&#xD800;&#0;&#11;", "\ufffd" * 5),
        ("a\x00b\x0bc\ud800d\ufffe\t\n", "a\ufffdb\ufffdc\ufffdd\ufffd\t\n"),
    ],
)
def test_characters_that_cannot_be_stored_are_replaced(html: str, mended: str) -> None:
    assert remove_unstorable(html) == mended


def test_the_answer_of_a_wiki_is_its_rows_or_the_code_of_its_refusal() -> None:
    answer = read_wiki_text(b'{"parse": {"text": "<h2>A</h2><p>b</p>"}}', {"name": "Wikipedia"})
    assert answer.facts == {} and unpack(answer.packed) == [["## A", 2], ["b", 0]]
    for error, code in (('{"code": "%s"}' % ("c" * 61), "c" * 60), ("{}", "?"), ('"x"', "?")):
        refused = read_wiki_text(f'{{"error": {error}}}'.encode(), {"name": "Wikipedia"})
        assert refused == ({"code": code}, b"")
    for body, said in (
        (b'{"parse": {}}', "Wikipedia gave no text for this page; try another source."),
        (b'{"parse": 3}', "Wikipedia gave no text for this page; try another source."),
        (b"{}", "Wikipedia gave no text for this page; try another source."),
        (b"[]", "Wikipedia answered with something unexpected; try again later."),
        (b"[" * 100_000, "Wikipedia answered with something that is no JSON; try again later."),
    ):
        with pytest.raises(ToolError) as failed:
            read_wiki_text(body, {"name": "Wikipedia"})
        assert str(failed.value) == said


def test_the_first_link_of_each_item_of_a_list_is_found() -> None:
    items = "<li><b><a>caf\N{LATIN SMALL LETTER E WITH ACUTE}</a></b> <a>no</a></li><li>none</li>"
    html = f"<ul>{items}<li class='a tocsection-1'><a>no</a></li></ul>"
    assert list_links(html.encode(), {}).facts == {"texts": ["caf\N{LATIN SMALL LETTER E WITH ACUTE}"]}
