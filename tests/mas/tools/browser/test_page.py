"""Replies of the browser's server, and what an agent sees of them."""

from datetime import UTC, datetime, tzinfo
from typing import Self

import pytest

from mas.tools.browser import page
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


class Noon(datetime):
    """A clock that stands still; its day is that of UTC."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        assert tz is UTC
        return cls(2026, 3, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("acted", "shown", "whole"),
    [
        ("", "### Page\n- Page URL: https://a.example/\n- Page Title: A",
         f"https://a.example/ 'A' (browser, 2026-03-04)\n\n{NOTHING_TO_READ}"),
        ("", "### Page\n- Page URL: https://a.example/",
         f"https://a.example/ (browser, 2026-03-04)\n\n{NOTHING_TO_READ}"),
        ("### Result\n7", "### Page\n- Page URL: about:blank\n### Snapshot\n",
         f"about:blank (browser, 2026-03-04)\n\n7\n\n{NO_PAGE_OPEN}"),
        (
            '### Events\n- Downloaded file a.pdf to "/tmp/a"\n- Downloaded file b c.pdf to "/tmp/b"',
            "### Page\n- Page URL: about:blank\n### Open tabs\n- 0: x\n### Snapshot\n```yaml\n- text: hi \n```",
            "about:blank (browser, 2026-03-04)\n\nTabs:\n- 0: x\n\nDownloaded, out of your reach: a.pdf\n\n"
            "Downloaded, out of your reach: b c.pdf\n\n- text: hi",
        ),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_page_whole(acted: str, shown: str, whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "datetime", Noon)
    result = build_result(acted, shown)
    assert result == whole and result.kind == "browser_page"
    assert [(each.start, each.end) for each in result.excerpts] == [(whole.index("\n\n") + 2, len(whole))]


def test_an_action_without_a_result_and_without_a_snapshot_shows_the_address_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page, "datetime", Noon)
    alone = build_result("### Events\n- other", SHOWN, with_snapshot=False)
    assert alone == "https://example.org/ 'Towns' (browser, 2026-03-04)" and alone.excerpts == ()
    result = build_result("### Result\n3 matches", SHOWN, with_snapshot=False)
    assert result == f"{alone}\n\n3 matches"


def test_a_result_that_is_not_the_list_of_tabs_is_shown_next_to_it() -> None:
    open_tabs = "### Open tabs\n- 0: Towns\n" + SHOWN
    assert "\n\nTabs:\n- 0: Towns\n\n- 1: Towns\n\n- heading" in build_result("### Result\n- 1: Towns", open_tabs)
    assert "\n\nTabs:\n- 0: Towns\n\n- heading" in build_result("### Result\n- 0: Towns", open_tabs)


def test_text_of_the_browser_has_no_half_characters_and_names_its_place() -> None:
    result = show_below("header\ud800", "body\udfff", Page("https://a.example/", "A"))
    assert result == "header?\n\nbody?"
    assert [(each.source, each.title, each.start, each.end) for each in result.excerpts] == [
        ("https://a.example/", "A", 9, 14)
    ]


def test_the_notice_of_a_cut_takes_no_more_than_is_there() -> None:
    whole = show_below("header", "x" * 1_000, Page("https://example.org/"))
    notice = (
        "\n[cut: 1008 characters in all; browser_find searches the page for a text, and browser_snapshot with a target "
        "such as e12 shows one part of it]"
    )
    assert cut(whole, 508) == whole[: 508 - len(notice)] + notice
    assert cut(whole, len(notice) + 1) == f"h{notice}"
    assert cut(whole, len(notice)) == cut(whole, 1) == notice


def test_a_dialog_is_shown_up_to_a_length_without_its_edges() -> None:
    assert read_dialog("### Page\n- x\n### Modal state\n\n- [alert]: hello \n") == "- [alert]: hello"
    assert read_dialog("### Modal state\n" + "x" * 1_000) == "x" * 1_000
    assert read_dialog("### Modal state\n" + "x" * 1_001) == "x" * 1_000


@pytest.mark.parametrize(
    ("snapshot", "left"),
    [
        *((f'- {role} "Search" [ref=e3]: typed', "") for role in ("textbox", "searchbox", "combobox", "spinbutton")),
        ("- 'textbox \"a: b\" [ref=e3]'", ""),
        ("- textbox [ref=e3]:\n  - /placeholder: Find\n  - text: typed\n- text: Rome", "\n: Rome"),
        ("  - textbox [ref=e3]:\n    - text: typed\n  - text: Rome", "\n: Rome"),
        ("- paragraph [ref=e2]: Rome is old", " : Rome is old"),
        ("- generic [active] [ref=e1] [cursor=pointer]:", "   :"),
        ('- heading "Towns [2]" [level=1] [ref=e4]', ' "Towns [2]"  '),
        ("- link:\n  - /url: https://a.example/", ":\n"),
        ("- 0: (current) [Towns](https://a.example/)\n- 12: b", "\n"),
        *((f"{found} for \"Rome\"", "") for found in ("Found 1 match", "Found 12 matches", "No matches found")),
        ("We Found 1 match for it", "We Found 1 match for it"),
        ("Rome - seat of textbox", "Rome - seat of textbox"),
    ],
)  # fmt: skip
def test_what_is_left_of_a_line_without_its_controls(snapshot: str, left: str) -> None:
    assert remove_controls(snapshot) == left
