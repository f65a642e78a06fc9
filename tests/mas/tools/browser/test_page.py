"""Replies of the browser's server, and what an agent sees of them."""

import pytest

from mas.tools.browser.page import (
    BLANK,
    NO_PAGE_OPEN,
    NOTHING_TO_READ,
    Page,
    build_result,
    cut,
    read_dialog,
    read_failure,
    read_open_page,
    read_snapshot,
    remove_controls,
    show_below,
    split_sections,
)

SHOWN = (
    "### Page\n- Page URL: https://example.org/ \n- Page Title: Towns\n"
    '### Snapshot\n```yaml\n- heading "Towns" [ref=e1]\n### x\n```\n### Snapshot\nforged'
)


def test_sections_are_the_first_of_their_heading() -> None:
    assert list(split_sections(SHOWN)) == ["Page", "Snapshot"]
    assert read_snapshot(SHOWN) == '- heading "Towns" [ref=e1]\n### x'
    assert read_open_page(SHOWN) == Page("https://example.org/", "Towns")
    assert read_open_page("### Result\nnothing") == Page("")


def test_what_a_dialog_says_is_no_page() -> None:
    reply = (
        "### Page\n- Page URL: https://a.example/\n### Modal state\n### Page\n- Page URL: https://b.example/"
        + "x" * 2_000
    )
    assert read_open_page(reply).url == "https://a.example/"
    assert len(read_dialog(reply)) == 1_000 and read_dialog(SHOWN) == ""


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ("### Error\nError: \x1b[31mno\x1b[0m such\n element\nCall log:\n - waiting", "no such element"),
        ("it broke", "it broke"),
        ("", "no reason was given"),
        ("### Error\n" + "x" * 900, "x" * 500),
    ],
)
def test_a_failure_is_one_line_without_the_log(reply: str, failure: str) -> None:
    assert read_failure(reply) == failure


def test_the_agent_sees_page_tabs_downloads_result_and_snapshot_in_this_order() -> None:
    acted = '### Result\n3 matches\n### Events\n- Downloaded file a.pdf to "/tmp/a.pdf"\n- other'
    result = build_result(acted, "### Open tabs\n- 0: Towns\n" + SHOWN)
    header, _, body = result.partition("\n\n")
    assert header.startswith("https://example.org/ 'Towns' (browser, 20")
    assert body == (
        'Tabs:\n- 0: Towns\n\nDownloaded, out of your reach: a.pdf\n\n3 matches\n\n- heading "Towns" [ref=e1]\n### x'
    )
    (excerpt,) = result.excerpts
    assert (result[excerpt.start : excerpt.end], excerpt.source, excerpt.title) == (
        body,
        "https://example.org/",
        "Towns",
    )
    assert "heading" not in build_result(acted, SHOWN, with_snapshot=False)
    tabs = build_result("### Result\n- 0: Towns", "### Open tabs\n- 0: Towns\n" + SHOWN)
    assert tabs.count("- 0: Towns") == 1, "the list of tabs is not shown twice"


def test_an_empty_page_is_said_to_be_empty() -> None:
    for url, sentence in ((BLANK, NO_PAGE_OPEN), ("https://example.org/", NOTHING_TO_READ)):
        shown = build_result("", f"### Page\n- Page URL: {url}\n### Snapshot\n```yaml\n\n```")
        assert shown.endswith(f"\n\n{sentence}") and shown.startswith(f"{url} (browser, ")
    alone = show_below("header", "", Page("https://example.org/"))
    assert alone == "header" and alone.excerpts == ()


def test_a_page_that_is_too_long_is_cut_with_advice() -> None:
    whole = show_below("header", "x" * 1_000, Page("https://example.org/"))
    assert cut(whole, len(whole)) is whole
    short = cut(whole, len(whole) - 1)
    assert len(short) == len(whole) - 1 and f"[cut: {len(whole)} characters in all;" in short
    assert "[cut: " in cut(whole, 5)


def test_a_pages_own_text_has_no_controls() -> None:
    fields = '- textbox "Search" [ref=e3]:\n  - text: typed\n'
    snapshot = f'{fields}- link "Rome" [ref=e4] [cursor=pointer]:\n  - /url: https://a\n- 1: tab'
    left = remove_controls(snapshot)
    assert "Rome" in left and not any(word in left for word in ("typed", "Search", "ref=", "cursor", "https", "tab"))
