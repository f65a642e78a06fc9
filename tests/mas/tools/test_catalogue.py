"""What is opened for a run: what its agents list and what there is; a service that is missing is named once."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from mas.agents.spec import AgentSettings, list_tools, make_toolbox
from mas.runtime.untrusted import is_untrusted
from mas.systems.gaia.system import GaiaSystem
from mas.systems.single_agent.system import SingleAgentSystem
from mas.systems.toy.system import ToySystem
from mas.tools.browser.session import ALLOWED
from mas.tools.catalogue import BROWSER, open_tools
from mas.tools.settings import BrowserSettings, Resources, ToolSettings, WebSettings
from tests.servers.playwright_mcp import BrowserServer, running_stub


@pytest.fixture(scope="module")
def server() -> Iterator[BrowserServer]:
    with running_stub() as running:
        yield running


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)


@pytest.fixture
def refused() -> Iterator[str]:
    """An address where nothing listens, and nothing else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/mcp"


def settings(url: str | None, **web: Any) -> ToolSettings:
    return ToolSettings(web=WebSettings(**{"contact": "me@example.org", **web}), browser=BrowserSettings(url=url))


def test_nothing_is_opened_or_asked_or_said_where_no_agent_lists_it() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        with open_tools(settings(url), {"read_file", "calculator", "python_repl_tool"}, said.append) as opened:
            assert (dict(opened.services), said) == ({}, [])
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_each_missing_service_is_named_once_and_the_run_goes_on(refused: str) -> None:
    said: list[str] = []
    with open_tools(settings(refused), {"read_file", "tavily_tool", BROWSER}, said.append) as opened:
        assert BROWSER not in opened.services
    search, browser = said
    assert "TAVILY_API_KEY" in search and refused in browser


SYSTEMS: list[tuple[Any, bool]] = [
    (GaiaSystem(agents={"researcher": AgentSettings(tools=[BROWSER, "tavily_tool"])}), True),
    (GaiaSystem(agents={"researcher": AgentSettings(), "expert": AgentSettings(tools=[BROWSER, "tavily_tool"])}), True),
    (GaiaSystem(agents={"researcher": AgentSettings(), "expert": AgentSettings()}), False),
    (SingleAgentSystem(agents={"agent": AgentSettings(tools=[BROWSER, "tavily_tool"])}), True),
    (SingleAgentSystem(agents={"agent": AgentSettings()}), False),
    (ToySystem(), False),
]


@pytest.mark.parametrize(("system", "lists_them"), SYSTEMS)
def test_a_system_opens_what_one_of_its_agents_lists(system: Any, lists_them: bool, refused: str) -> None:
    said: list[str] = []
    with system.open_resources(settings(refused), said.append):
        pass
    assert len(said) == (2 if lists_them else 0)


def test_browser_in_an_agents_list_stands_for_the_servers_tools_which_return_data_from_outside(
    server: BrowserServer,
) -> None:
    agent = AgentSettings(tools=["calculator", BROWSER])
    tools = {"calculator": "mas.tools.calculator.calculator"}
    with open_tools(settings(server.url), list_tools([agent]), print) as opened:
        box = make_toolbox(agent, tools, opened)
    assert BROWSER not in box.tools and "calculator" in box.tools
    of_browser = {name: tool for name, tool in box.tools.items() if name != "calculator"}
    assert {"browser_navigate", "browser_click"} <= of_browser.keys() <= set(ALLOWED)
    assert all(is_untrusted(tool.func) for tool in of_browser.values())
    assert box.resources is opened


def test_without_a_browser_its_tools_are_not_offered() -> None:
    agent = AgentSettings(tools=["calculator", BROWSER])
    box = make_toolbox(agent, {"calculator": "mas.tools.calculator.calculator"}, Resources())
    assert list(box.tools) == ["calculator"]
