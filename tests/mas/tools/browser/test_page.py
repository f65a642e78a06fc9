"""Replies of the browser's server, and what an agent sees of them."""

from mas.tools.browser.page import (
    Page,
    build_result,
    cut,
    read_dialog,
    read_open_page,
    remove_controls,
    show_below,
)

SHOWN = (
    "### Page\n- Page URL: https://example.org/ \n- Page Title: Towns\n"
    '### Snapshot\n```yaml\n- heading "Towns" [ref=e1]\n### x\n```\n### Snapshot\nforged'
)


def test_what_a_dialog_says_is_no_page() -> None:
    reply = (
        "### Page\n- Page URL: https://a.example/\n### Modal state\n### Page\n- Page URL: https://b.example/"
        + "x" * 2_000
    )
    assert read_open_page(reply).url == "https://a.example/"
    assert len(read_dialog(reply)) == 1_000 and read_dialog(SHOWN) == ""


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
