"""The server's tools as agents get them: which, with which arguments, and what a call sends."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.runtime.untrusted import is_untrusted
from mas.tools.browser.session import BrowserSession
from mas.tools.browser.settings import BrowserSettings
from mas.tools.browser.tools import MAX_DESCRIPTION_CHARS, build_browser_tools, read_arguments
from mas.tools.mcp.connection import Offer
from mas.tools.results import ToolResult

SCHEMA = {
    "properties": {
        "target": {"type": "string", "description": "which"},
        "count": {"type": "integer", "description": "how often"},
        "force": {"type": "boolean"},
        "depth": {"type": "integer", "default": 3},
        "filename": {"type": "string"},
        "element": {"type": "string"},
        "boxes": {"type": "boolean"},
    },
    "required": ["target"],
}
OFFERS = [
    Offer("browser_evaluate", "runs code", {}),
    Offer("browser_snapshot", "s" * (MAX_DESCRIPTION_CHARS + 1), {}),
    Offer("browser_click", "clicks", SCHEMA),
]


class Recorder(BrowserSession):
    """Session that writes down what it is asked for."""

    def __init__(self, tools: list[str] | None) -> None:
        self.offers, self.chosen_tools = OFFERS, tools
        self.asked: list[tuple[str, dict[str, object]]] = []

    async def act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        self.asked.append((tool, dict(arguments)))
        return ToolResult("seen", kind="browser_page")


def test_arguments_that_may_be_left_out_have_null_as_their_default_and_hidden_ones_are_gone() -> None:
    assert read_arguments(SCHEMA) == {
        "target": {"type": "string", "description": "which"},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "description": "how often"},
        "force": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
        "depth": {"type": "integer", "default": 3},
    }
    assert read_arguments({}) == {}


def test_allowed_tools_are_offered_in_the_order_of_the_list_and_chosen_ones_in_their_own() -> None:
    assert list(build_browser_tools(Recorder(None))) == ["browser_snapshot", "browser_click"]
    chosen = ["browser_click", "browser_evaluate"]
    assert list(build_browser_tools(Recorder(chosen))) == chosen
    with pytest.raises(UserError) as refused:
        build_browser_tools(Recorder(["browser_click", "browser_dance", "browser_sing"]))
    assert str(refused.value) == (
        "tools.browser.tools: the browser's server has no browser_dance; choose from browser_click, browser_evaluate, "
        "browser_snapshot."
    )


def test_a_tool_has_its_servers_name_description_and_arguments() -> None:
    tools = build_browser_tools(Recorder(None))
    click = tools["browser_click"]
    assert (click.name, click.desc, click.args) == ("browser_click", "clicks", read_arguments(SCHEMA))
    assert click.arg_types == dict.fromkeys(read_arguments(SCHEMA), Any)
    assert click.func.__name__ == "browser_click" and is_untrusted(click.func)
    assert tools["browser_snapshot"].desc == "s" * MAX_DESCRIPTION_CHARS


def test_a_call_sends_the_arguments_that_are_known_and_given() -> None:
    session = Recorder(None)
    click = build_browser_tools(session)["browser_click"]
    given = {"target": "e1", "count": None, "force": False, "depth": 0, "filename": "/etc/x", "other": 1}
    assert asyncio.run(click.func(**given)) == "seen"
    assert session.asked == [("browser_click", {"target": "e1", "force": False, "depth": 0})]


def test_a_session_keeps_what_the_settings_choose() -> None:
    async def check(url: str) -> str:
        return url

    session = BrowserSession(BrowserSettings(tools=["browser_click"]), "http://127.0.0.1:1/mcp", OFFERS, check)
    assert (session.offers, session.chosen_tools) == (OFFERS, ["browser_click"])
