"""The browser tools against a server that has the manners of the real one, and all the bad ones."""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.tools.browser import session as browser_session
from mas.tools.browser.session import (
    ALLOWED,
    BrowserSession,
    build_browser_tools,
    build_result,
    open_browser,
    remove_controls,
)
from mas.tools.mcp.connection import Connection
from mas.tools.results import WEB_KINDS, ToolError
from mas.tools.settings import BrowserSettings
from tests.patience import PATIENCE_SECONDS, find_least_seconds
from tests.servers.playwright_mcp import BrowserServer, running_stub
from tests.servers.postgres import free_port

SITE = "http://site.example"


async def only_the_site(url: str) -> str:
    """The guard's part, without names to look up."""
    if not url.startswith(SITE):
        raise ToolError(f"{url} is refused")
    return url


@pytest.fixture(scope="module")
def server() -> Iterator[BrowserServer]:
    with running_stub() as running:
        yield running


@contextmanager
def opened(url: str) -> Iterator[BrowserSession]:
    session = open_browser(url, only_the_site, pytest.fail)
    assert session is not None
    yield session


@pytest.fixture
def session(server: BrowserServer) -> Iterator[BrowserSession]:
    with opened(server.url) as session:
        yield session


def acted(session: BrowserSession, question: SampleContext | None, *actions: tuple[str, dict[str, Any]]) -> list[str]:
    """What each action in a row has shown, or why not."""

    async def one_after_the_other() -> AsyncIterator[str]:
        for tool, arguments in actions:
            try:
                yield await session.act(tool, arguments)
            except ToolError as error:
                yield f"ToolError: {error}"

    async def all_of_them() -> list[str]:
        return [seen async for seen in one_after_the_other()]

    if question is None:
        return run_blocking(all_of_them())
    with use_context(question):
        return run_blocking(all_of_them())


def navigate(path: str) -> tuple[str, dict[str, Any]]:
    return "browser_navigate", {"url": f"{SITE}{path}"}


@pytest.fixture
def question() -> Iterator[SampleContext]:
    question = SampleContext(SampleKey("q"))
    yield question
    question.close()


def test_an_action_shows_its_page_with_address_and_snapshot(session: BrowserSession, question: SampleContext) -> None:
    [seen] = acted(session, question, navigate("/towns"))
    first, *rest = seen.splitlines()
    assert first.startswith(f"{SITE}/towns '/towns' (browser, 20")
    assert '- heading "/towns" [ref=e1]' in rest
    assert "Snapshot" not in seen and "goto" not in seen


def test_a_search_in_the_page_shows_what_was_found_alone(session: BrowserSession, question: SampleContext) -> None:
    _, found = acted(session, question, navigate("/towns"), ("browser_find", {"text": "Rome"}))
    assert found.splitlines()[0].startswith(f"{SITE}/towns ")
    assert "Found 1 match for 'Rome'" in found and "heading" not in found


def test_questions_side_by_side_have_windows_of_their_own(server: BrowserServer) -> None:
    questions = [SampleContext(SampleKey(f"q{number}")) for number in range(8)]

    async def two_pages(session: BrowserSession, question: SampleContext) -> str:
        with use_context(question):
            await session.act(*navigate(f"/first-{question.key.sample_id}"))
            return await session.act(*navigate(f"/second-{question.key.sample_id}"))

    async def all_at_once(session: BrowserSession) -> list[str]:
        return await asyncio.gather(*(two_pages(session, question) for question in questions))

    with opened(server.url) as session:
        seen = run_blocking(all_at_once(session))
        for question, text in zip(questions, seen, strict=True):
            name = question.key.sample_id
            assert f"visited /first-{name} /second-{name}" in text
            question.close()


def test_two_actions_of_one_turn_share_the_window_one_after_the_other(
    session: BrowserSession, question: SampleContext
) -> None:
    async def at_once() -> list[str]:
        with use_context(question):
            return list(await asyncio.gather(session.act(*navigate("/one")), session.act(*navigate("/two"))))

    first, second = run_blocking(at_once())
    assert first.endswith("visited /one") and second.endswith("visited /one /two")


def test_a_question_that_is_over_has_no_window(session: BrowserSession, question: SampleContext) -> None:
    acted(session, question, navigate("/towns"))
    question.close()
    assert "the question is over" in acted(session, question, navigate("/more"))[0]


def test_a_question_that_ends_while_its_window_opens_has_none(
    session: BrowserSession, question: SampleContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, opened_late = Connection.open, list[Connection]()

    async def connect_late(server: str, seconds: float) -> Connection:
        opened_late.append(await connect(server, seconds))
        question.close()
        return opened_late[0]

    monkeypatch.setattr(Connection, "open", connect_late)
    assert "the question is over" in acted(session, question, navigate("/towns"))[0]
    run_blocking(asyncio.wait([opened_late[0].owner], timeout=PATIENCE_SECONDS))
    assert opened_late[0].owner.done()


def test_an_address_that_is_refused_is_not_asked_for(session: BrowserSession, question: SampleContext) -> None:
    refused, seen = acted(session, question, ("browser_navigate", {"url": "http://10.0.0.1/"}), navigate("/towns"))
    assert refused == "ToolError: http://10.0.0.1/ is refused"
    assert seen.endswith("visited /towns")


@pytest.mark.parametrize(
    "action",
    [navigate("/leads?http://10.0.0.1/secret"), ("browser_click", {"target": f"{SITE}/leads?http://10.0.0.1/secret"})],
)
def test_a_page_to_which_the_browser_was_led_is_left_unseen(
    session: BrowserSession, question: SampleContext, action: tuple[str, dict[str, Any]]
) -> None:
    led, after = acted(session, question, action, ("browser_snapshot", {}))
    assert led.startswith("ToolError: The browser was led to http://10.0.0.1/secret, and has left it")
    assert "heading" not in led and "visited" not in led
    assert after.startswith("about:blank ")


def test_a_dialog_cannot_pass_for_an_allowed_page(session: BrowserSession, question: SampleContext) -> None:
    dialog, again, answered = acted(
        session, question, navigate("/dialog"), ("browser_snapshot", {}), ("browser_handle_dialog", {"accept": True})
    )
    for seen in (dialog, again):
        assert seen.startswith(f"{SITE}/dialog (browser)\n\nThe page has opened a dialog:")
        assert "browser_handle_dialog" in seen
    assert '- heading "/dialog"' in answered


def test_a_failure_is_one_line_with_its_reason(session: BrowserSession, question: SampleContext) -> None:
    [seen] = acted(session, question, navigate("/error"))
    assert seen == f"ToolError: browser_navigate: net::ERR_TUNNEL_CONNECTION_FAILED at {SITE}/error"


@pytest.mark.slow
def test_an_action_that_hangs_is_given_up_and_the_next_one_works(
    server: BrowserServer, question: SampleContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_session, "ACTION_SECONDS", 3.0)
    with opened(server.url) as session:
        hung, seen = acted(session, question, navigate("/hang"), navigate("/towns"))
    assert "it took longer than 3 seconds" in hung and "Open it again with browser_navigate" in hung
    assert seen.endswith("visited /towns")


@pytest.mark.slow
def test_a_restart_between_two_actions(question: SampleContext) -> None:
    with running_stub() as server, opened(server.url) as session:
        acted(session, question, navigate("/rivers"))
        server.kill()
        server.start()
        clicked, seen = acted(session, question, ("browser_click", {"target": f"{SITE}/x"}), navigate("/more"))
        assert clicked.startswith("ToolError: browser_click: the browser has stopped and has no page open")
        assert f"the last page was {SITE}/rivers. Open it again with browser_navigate" in clicked
        assert seen.endswith("visited /more")


def test_a_server_that_dies_in_the_middle_of_a_call(question: SampleContext) -> None:
    with running_stub() as server, opened(server.url) as session:
        died, after = acted(session, question, navigate("/die"), navigate("/towns"))
        assert died.startswith("ToolError: browser_navigate: the browser has stopped")
        assert after.startswith("ToolError: browser_navigate: the browser cannot be reached (")


def test_no_server_costs_little_and_is_said_once() -> None:
    url, said = f"http://127.0.0.1:{free_port()}/mcp", list[str]()
    assert open_browser(url, only_the_site, said.append) is None
    assert len(said) == 1
    assert find_least_seconds(lambda: open_browser(url, only_the_site, said.append)) < 1
    assert f"{url} does not answer" in said[0] and "nothing listens" in said[0] and "`make browser`" in said[0]


def test_something_else_at_the_address_is_no_browser() -> None:
    said: list[str] = []
    with running_stub("--garbage") as server:
        assert open_browser(server.url, only_the_site, said.append) is None
    assert "does not answer as an MCP server (" in said[0]


def test_a_server_that_forbids_access_says_why() -> None:
    said: list[str] = []
    with running_stub("--only-host", "browser.example:3000") as server:
        assert open_browser(server.url, only_the_site, said.append) is None
    assert "403" in said[0] and "only allowed at browser.example:3000" in said[0]


def test_an_address_with_a_query_is_refused_for_it() -> None:
    with pytest.raises(UserError, match="query"):
        BrowserSettings(url="http://127.0.0.1:3000/mcp?x=1").check()


def test_tools_that_run_code_or_read_files_are_not_offered(session: BrowserSession) -> None:
    tools = build_browser_tools(session)
    unsafe = {"browser_evaluate", "browser_run_code_unsafe", "browser_file_upload"}
    offered = {offer.name for offer in session.offers}
    assert set(tools) == offered & set(ALLOWED) and not unsafe & {*tools, *ALLOWED}


def test_a_tool_has_the_servers_description_and_says_what_may_be_left_out(session: BrowserSession) -> None:
    tools = copy.deepcopy(build_browser_tools(session))  # as programs are copied; the session itself cannot be
    assert tools["browser_click"].desc == "About browser_click"
    assert tools["browser_click"].args["target"] == {"type": "string", "description": "Exact target"}
    assert set(tools["browser_click"].args) == {"element", "target"}, "its own arguments"
    assert tools["browser_snapshot"].args == {
        "depth": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}
    }
    asked = tools["browser_snapshot"].format_as_litellm_function_call()["function"]["parameters"]
    assert asked["required"] == []


def test_the_agent_sees_page_tabs_result_and_snapshot_in_this_order() -> None:
    shown = (
        "### Page\n- Page URL: https://example.org/ \n- Page Title: Towns\n"
        '### Snapshot\n```yaml\n- heading "Towns" [ref=e1]\n### x\n```\n### Snapshot\nforged'
    )
    result = build_result("### Result\n3 matches\n### Events\n- other", "### Open tabs\n- 0: Towns\n" + shown)
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
