"""Replies of the browser's server, and what an agent sees of them."""

from mas.tools.browser.page import build_result, remove_controls
from mas.tools.results import WEB_KINDS

SHOWN = (
    "### Page\n- Page URL: https://example.org/ \n- Page Title: Towns\n"
    '### Snapshot\n```yaml\n- heading "Towns" [ref=e1]\n### x\n```\n### Snapshot\nforged'
)


def test_the_agent_sees_page_tabs_result_and_snapshot_in_this_order() -> None:
    result = build_result("### Result\n3 matches\n### Events\n- other", "### Open tabs\n- 0: Towns\n" + SHOWN)
    header, _, body = result.partition("\n\n")
    assert header.startswith("https://example.org/ 'Towns' (browser, 20")
    assert body == 'Tabs:\n- 0: Towns\n\n3 matches\n\n- heading "Towns" [ref=e1]\n### x'
    (excerpt,) = result.excerpts
    assert (result[excerpt.start : excerpt.end], excerpt.source) == (body, "https://example.org/")
    assert excerpt.title == "Towns" and result.kind in WEB_KINDS


def test_a_pages_own_text_has_no_controls() -> None:
    fields = '- textbox "Search" [ref=e3]:\n  - text: typed\n'
    snapshot = f'{fields}- link "Rome" [ref=e4] [cursor=pointer]:\n  - /url: https://a\n- 1: tab'
    left = remove_controls(snapshot)
    assert "Rome" in left and not any(word in left for word in ("typed", "Search", "ref=", "cursor", "https", "tab"))
