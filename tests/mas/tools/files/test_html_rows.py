"""HTML as lines: tables with every cell in its column, and nothing that a page can hold breaks it."""

import pytest

from mas.tools.files.html_rows import list_headings, read_rows, select_section


def texts(html: str) -> list[str]:
    return read_rows(html)


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


def test_a_comment_of_a_program_is_no_heading_and_ends_no_section() -> None:
    lines = read_rows("<h2>Use</h2><pre># count\nn = 1</pre><p>It prints 42.</p><p># 7 of 9</p><h2>Next</h2><p>z</p>")
    assert list_headings(lines) == ["Use", "Next"]
    assert select_section(lines, "use") == ["## Use", " # count", "n = 1", "It prints 42.", " # 7 of 9"]


def test_characters_of_an_icon_font_are_no_marks_of_ours() -> None:
    assert read_rows("<p>\ue000 a\ue001b&#xe002;</p><p>c</p>") == ["\ufffd a\ufffdb\ufffd", "c"]
