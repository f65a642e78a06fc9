"""What is opened for a run: what its agents list and what there is; a service that is missing is named once."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from mas.agents.spec import AgentSettings, list_tools, make_toolbox
from mas.runtime.errors import UserError
from mas.runtime.untrusted import is_untrusted
from mas.systems.gaia.system import GaiaSystem
from mas.systems.single_agent.system import SingleAgentSystem
from mas.systems.toy.system import ToySystem
from mas.tools.browser.settings import BrowserSettings
from mas.tools.browser.tools import ALLOWED
from mas.tools.catalogue import BROWSER, NO_CONTACT, describe_missing_contact, load_function, open_tools
from mas.tools.http.settings import WebSettings
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources
from tests.servers.playwright_mcp import BrowserServer, running_stub

BOTH = {"read_file", "web_search", BROWSER}
NO_SEARCH = "TAVILY_API_KEY is not set: there is no web search; Wikipedia's search answers instead."


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


@pytest.fixture
def visited() -> Iterator[tuple[str, socket.socket]]:
    """An address, and the socket that would know of any visitor."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", listening


def settings(url: str | None, **web: Any) -> ToolSettings:
    return ToolSettings(web=WebSettings(**{"contact": "me@example.org", **web}), browser=BrowserSettings(url=url))


def test_nothing_is_opened_or_asked_or_said_where_no_agent_lists_it(visited: tuple[str, socket.socket]) -> None:
    url, listening = visited
    said: list[str] = []
    with open_tools(settings(url), {"read_file", "calculator", "python"}, said.append) as opened:
        assert dict(opened.services) == {}
    assert said == []
    with pytest.raises(BlockingIOError):
        listening.accept()


def test_each_missing_service_is_named_once_and_the_run_goes_on(refused: str) -> None:
    said: list[str] = []
    with open_tools(settings(refused), BOTH, said.append) as opened:
        assert BROWSER not in opened.services
    assert said[0] == NO_SEARCH
    assert said[1].startswith(f"No browser: nothing listens at {refused}, so the run goes on without browser tools")
    assert len(said) == 2


def test_what_is_there_is_not_spoken_of(server: BrowserServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-somebody")
    said: list[str] = []
    with open_tools(settings(server.url), BOTH, said.append) as opened:
        assert {offer.name for offer in opened.services[BROWSER].offers} & set(ALLOWED)
    assert said == []


def test_a_browser_that_is_switched_off_is_not_missed() -> None:
    said: list[str] = []
    with open_tools(settings(None), {BROWSER}, said.append) as opened:
        assert dict(opened.services) == {}
    assert said == []


def test_without_the_fallback_the_sentence_says_what_is_left() -> None:
    said: list[str] = []
    with open_tools(settings(None, fall_back_to_wikipedia=False), {"web_search"}, said.append):
        pass
    assert said == ["TAVILY_API_KEY is not set: there is no web search; web_search only fails."]


@pytest.mark.parametrize(
    ("names", "key", "web", "told"),
    [
        ({"wikipedia_search"}, "tvly-somebody", {}, True),
        ({"wikipedia_page", "web_search"}, "tvly-somebody", {}, True),
        ({"web_search"}, "", {}, True),
        ({"web_search"}, "", {"fall_back_to_wikipedia": False}, False),
        ({"web_search"}, "tvly-somebody", {}, False),
        ({"read_page", "youtube_transcript"}, "", {}, False),
        ({"wikipedia_search", "wikipedia_page", "web_search"}, "", {"contact": "me@example.org"}, False),
    ],
)
def test_a_contact_is_asked_for_once_where_wikipedia_will_be(
    names: set[str], key: str, web: dict[str, Any], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", key)
    said: list[str] = []
    with open_tools(settings(None, **{"contact": "", **web}), names, said.append):
        pass
    assert said.count(NO_CONTACT) == told


SYSTEMS: list[tuple[Any, bool]] = [
    (GaiaSystem(agents={"researcher": AgentSettings(tools=[BROWSER, "web_search"])}), True),
    (GaiaSystem(agents={"researcher": AgentSettings(), "expert": AgentSettings(tools=[BROWSER, "web_search"])}), True),
    (GaiaSystem(agents={"researcher": AgentSettings(), "expert": AgentSettings()}), False),
    (SingleAgentSystem(agents={"agent": AgentSettings(tools=[BROWSER, "web_search"])}), True),
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


@pytest.mark.parametrize(
    ("dotted", "said"),
    [
        ("no_such_module.f", "no_such_module.f cannot be loaded (No module named 'no_such_module'); "),
        ("mas.tools.catalogue.nothing", "mas.tools.catalogue.nothing cannot be loaded (module 'mas.tools.catalogue' "),
        ("alone", "alone cannot be loaded (Empty module name); "),
    ],
)
def test_a_function_that_is_not_there_is_named(dotted: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        load_function(dotted)
    assert str(refused.value).startswith(said)
    assert str(refused.value).endswith("; expected package.module.function of something importable.")


def test_a_function_is_loaded_and_anything_else_is_refused() -> None:
    assert load_function("mas.tools.catalogue.load_function") is load_function
    with pytest.raises(UserError) as refused:
        load_function("mas.tools.catalogue.NO_CONTACT")
    assert str(refused.value) == "mas.tools.catalogue.NO_CONTACT is a str; expected a function."


@pytest.mark.parametrize(
    ("names", "key", "falls_back", "contact", "is_missing"),
    [
        ({"web_search"}, "", True, "", True),
        ({"web_search"}, "k", True, "", False),
        ({"web_search"}, "", False, "", False),
        ({"web_search"}, "", True, "me@example.org", False),
        ({"wikipedia_search"}, "k", False, "", True),
        ({"wikipedia_page", "other"}, "k", False, "", True),
        ({"wikipedia_page"}, "k", False, "me@example.org", False),
        ({"read_page"}, "", True, "", False),
    ],
)
def test_a_contact_is_missed_where_wikipedia_may_be_asked(
    names: set[str], key: str, falls_back: bool, contact: str, is_missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", key)
    found = describe_missing_contact(WebSettings(contact=contact, fall_back_to_wikipedia=falls_back), names)
    assert found == (NO_CONTACT if is_missing else None)
