"""A window's actions over a scripted connection: what is called, what is shown, and what a failure says."""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

import pytest

from mas.tools.browser.page import BLANK, NO_PAGE_OPEN
from mas.tools.browser.window import FIND, NAVIGATE, SNAPSHOT, Window
from mas.tools.mcp.connection import Connection, ConnectionLostError, Reply
from mas.tools.results import ToolError, ToolResult

SITE = "https://site.example/"
Calls = list[tuple[str, dict[str, object]]]


def page(url: str, text: str = "- text: Rome") -> Reply:
    return Reply(f"### Page\n- Page URL: {url}\n### Snapshot\n```yaml\n{text}\n```", failed=False)


class Script:
    """Connection that gives these replies in turn; an exception is raised."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.replies, self.calls, self.closed = list(replies), Calls(), 0

    async def call(self, tool: str, arguments: Mapping[str, object]) -> Reply:
        self.calls.append((tool, dict(arguments)))
        if not self.replies:
            await asyncio.Event().wait()
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        self.closed += 1


class Scripted:
    """Window whose connections are these scripts, one after the other."""

    def __init__(self, *scripts: Script | Exception, seconds: float = 30) -> None:
        self.scripts = list(scripts)
        self.checked: list[str] = []
        self.window = Window(self.connect, self.check, seconds)

    async def connect(self) -> Connection:
        script = self.scripts.pop(0)
        if isinstance(script, Exception):
            raise script
        return cast(Connection, script)

    async def check(self, url: str) -> str:
        self.checked.append(url)
        if "bad" in url:
            raise ToolError("That host is refused.")
        return url.rstrip("/") + "/"

    def act(self, tool: str, **arguments: object) -> ToolResult:
        return asyncio.run(self.window.act(tool, arguments))

    def fail(self, tool: str, **arguments: object) -> str:
        with pytest.raises(ToolError) as failed:
            self.act(tool, **arguments)
        return str(failed.value)


def body(shown: str) -> str:
    return shown.partition("\n\n")[2]


def test_an_address_is_checked_before_it_is_asked_for_and_the_page_is_shown_by_a_snapshot() -> None:
    script = Script(Reply("### Result\ndone", False), page(SITE))
    scripted = Scripted(script)
    shown = scripted.act(NAVIGATE, url="https://site.example")
    assert script.calls == [(NAVIGATE, {"url": SITE}), (SNAPSHOT, {})]
    assert scripted.checked == ["https://site.example", SITE]
    assert shown.startswith(f"{SITE} (browser, 20") and body(shown) == "done\n\n- text: Rome"


def test_a_snapshot_is_asked_for_once_and_a_page_that_was_shown_is_not_checked_again() -> None:
    script = Script(page(SITE), page(SITE, "- text: Oslo"), Reply("### Result\nFound 1 match", False), page(SITE))
    scripted = Scripted(script)
    assert body(scripted.act(SNAPSHOT)) == "- text: Rome"
    assert body(scripted.act(SNAPSHOT)) == "- text: Oslo"
    assert body(scripted.act(FIND, text="x")) == "Found 1 match", "what was found alone"
    assert script.calls == [(SNAPSHOT, {}), (SNAPSHOT, {}), (FIND, {"text": "x"}), (SNAPSHOT, {})]
    assert scripted.checked == [SITE]


def test_the_empty_page_may_always_be_opened() -> None:
    script = Script(Reply("", False), page(BLANK, ""))
    scripted = Scripted(script)
    assert body(scripted.act(NAVIGATE, url=BLANK)) == NO_PAGE_OPEN
    assert script.calls[0] == (NAVIGATE, {"url": BLANK}) and scripted.checked == []


def test_a_refused_address_opens_no_window() -> None:
    scripted = Scripted()
    assert scripted.fail(NAVIGATE, url="https://bad.example/") == "That host is refused."


def test_a_forbidden_page_is_left_for_the_empty_one() -> None:
    script = Script(Reply("clicked", False), page("https://bad.example/" + "x" * 600), Reply("", False))
    said = Scripted(script).fail("browser_click", target="e1")
    assert said == (
        f"The browser was led to {('https://bad.example/' + 'x' * 600)[:500]}, and has left it without showing it. "
        "That host is refused."
    )
    assert script.calls[-1] == (NAVIGATE, {"url": BLANK})


def test_a_reply_that_does_not_say_which_page_is_open_is_not_shown() -> None:
    said = Scripted(Script(Reply("clicked", False), Reply("### Result\nsecret", False))).fail("browser_click")
    assert said == ("browser_click: the browser's server does not say which page is open; go on without the browser.")


def test_a_dialog_is_shown_under_the_last_page() -> None:
    dialog = Reply("### Modal state\n- [alert] Sure?", failed=True)
    scripted = Scripted(Script(page(SITE), Reply(f"### Page\n- Page URL: {SITE}\n", False), dialog))
    scripted.act(SNAPSHOT)
    shown = scripted.act("browser_click", target="e1")
    assert shown == f"{SITE} (browser)\n\nThe page has opened a dialog:\n- [alert] Sure?"
    assert [(each.source, each.title) for each in shown.excerpts] == [(SITE, "")]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            "net::ERR_TUNNEL_CONNECTION_FAILED",
            "browser_click: net::ERR_TUNNEL_CONNECTION_FAILED; that host does not answer, or is not on the public web.",
        ),
        (
            "Ref e1 not found in the current page snapshot.",
            "browser_click: Ref e1 not found in the current page snapshot. browser_snapshot shows the page with its "
            "present refs.",
        ),
        (
            "TimeoutError: Timeout 5000ms exceeded",
            "browser_click: TimeoutError: Timeout 5000ms exceeded; browser_snapshot shows what is there so far.",
        ),
        ("no such key", "browser_click: no such key"),
    ],
)
def test_a_failed_action_says_why_and_what_helps(reason: str, said: str) -> None:
    failed = Reply(f"### Error\nError: {reason}", failed=True)
    assert Scripted(Script(failed, page(SITE))).fail("browser_click") == said


def test_of_an_action_and_a_snapshot_that_both_fail_the_action_is_told() -> None:
    both = Script(Reply("### Error\nfirst", failed=True), Reply("### Error\nsecond", failed=True))
    assert Scripted(both).fail("browser_click") == "browser_click: first"
    acted = Reply(f"### Page\n- Page URL: {SITE}\n", False)
    scripted = Scripted(Script(acted, Reply("### Error\nsecond", failed=True)))
    assert scripted.fail("browser_click") == "browser_click: second"
    assert scripted.checked == [SITE], "the address in the reply to the action counts"


def test_an_address_is_opened_again_after_a_restart() -> None:
    first, second = Script(ConnectionLostError("gone")), Script(Reply("", False), page(SITE))
    assert body(Scripted(first, second).act(NAVIGATE, url=SITE)) == "- text: Rome"
    assert first.closed == 1 and second.closed == 0
    assert second.calls == [(NAVIGATE, {"url": SITE}), (SNAPSHOT, {})]


def test_a_second_restart_in_a_row_ends_the_action() -> None:
    scripts = Script(ConnectionLostError("gone")), Script(ConnectionLostError("HTTP 500"))
    said = Scripted(*scripts).fail(NAVIGATE, url=SITE)
    assert said == "browser_navigate: the browser has stopped twice (HTTP 500); go on without it."
    assert [each.closed for each in scripts] == [1, 1]


def test_another_action_is_not_repeated_after_a_restart() -> None:
    scripted = Scripted(Script(page(SITE), ConnectionLostError("gone")), Script(page(BLANK)))
    scripted.act(SNAPSHOT)
    assert scripted.fail("browser_click") == (
        f"browser_click: the browser was started anew and has no page open (gone); the last page was {SITE}. "
        "Open it again with browser_navigate."
    )
    assert scripted.scripts == []
    assert Scripted(Script(ConnectionLostError("gone")), Script()).fail("browser_click") == (
        "browser_click: the browser was started anew and has no page open (gone). Open it again with browser_navigate."
    )


def test_a_browser_that_is_not_there_is_said_and_tried_again_with_the_next_action() -> None:
    scripted = Scripted(ConnectionLostError("no answer in 10 seconds"), Script(page(SITE)))
    assert scripted.fail(SNAPSHOT) == (
        "browser_snapshot: the browser cannot be reached (no answer in 10 seconds); go on without it."
    )
    assert body(scripted.act(SNAPSHOT)) == "- text: Rome"


def test_an_action_that_takes_too_long_loses_its_page() -> None:
    first, second = Script(), Script(page(SITE))
    scripted = Scripted(first, second, seconds=0.01)
    assert scripted.fail("browser_click") == (
        "browser_click took longer than 0.01 seconds and was given up, and its page was closed; open another page "
        "with browser_navigate, or try another tool."
    )
    assert first.closed == 1
    scripted.act(SNAPSHOT)
    assert second.calls == [(SNAPSHOT, {})]


def test_a_closed_window_does_nothing_any_more() -> None:
    script = Script(page(SITE))
    scripted = Scripted(script)
    scripted.act(SNAPSHOT)
    scripted.window.close()
    assert script.closed == 1
    assert scripted.fail(SNAPSHOT) == "browser_snapshot: the question is over, and its browser is closed."
    scripted.window.close()
    assert script.closed == 1, "once"


def test_a_window_that_is_closed_while_it_opens_gives_its_connection_back() -> None:
    script = Script(page(SITE))
    window: Window

    async def connect() -> Connection:
        window.close()
        return cast(Connection, script)

    window = Window(connect, Scripted().check, 30)
    with pytest.raises(ToolError, match="the question is over"):
        asyncio.run(window.act(SNAPSHOT, {}))
    assert script.closed == 1 and script.calls == []


def test_actions_of_a_window_run_one_after_the_other() -> None:
    running, most = 0, 0

    class Slow(Script):
        async def call(self, tool: str, arguments: Mapping[str, object]) -> Reply:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return page(SITE)

    async def both(act: Callable[..., object]) -> None:
        await asyncio.gather(*(act(SNAPSHOT, {}) for _ in range(3)))  # type: ignore[call-overload]

    asyncio.run(both(Scripted(Slow()).window.act))
    assert most == 1
