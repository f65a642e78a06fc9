"""Settings of agents: the edges of their ranges, and what cannot be right is refused by name."""

from typing import Any

import pytest

from mas.agents.spec import AgentSettings, AgentSpec, ModelSettings, check_agents, list_tools
from mas.runtime.errors import UserError
from mas.tools.catalogue import BROWSER

AGENTS = (AgentSpec("planner"), AgentSpec("expert", uses_tools=True), AgentSpec("reader", uses_tools=True))
TOOLS = {"search": "x.search", "calculator": "x.calculator"}


def check(**settings: ModelSettings) -> None:
    check_agents("toy", AGENTS, settings, TOOLS)


@pytest.mark.parametrize(
    "changes",
    [{"retry_limit": 1}, {"max_steps": 1}, {"temperature": 0}, {"temperature": 2.0}, {"temperature": None},
     {"max_tokens": 1}, {"tools": ["search", BROWSER]}, {}],
)  # fmt: skip
def test_the_edges_of_the_ranges_are_accepted(changes: dict[str, Any]) -> None:
    check(expert=AgentSettings(**changes))


@pytest.mark.parametrize(
    ("agent", "changes", "message"),
    [
        ("expert", {"retry_limit": 0}, r"system\.agents\.expert\.retry_limit=0 is too small"),
        ("expert", {"max_steps": 0}, r"expert\.max_steps=0 is too small"),
        ("expert", {"temperature": -0.1}, r"temperature=-0\.1 is out of range; expected 0 to 2"),
        ("expert", {"temperature": 2.1}, r"temperature=2\.1 is out of range"),
        ("expert", {"max_tokens": 0}, r"max_tokens=0 is too small"),
        (
            "expert",
            {"tools": ["search", "x", "b"]},
            r"names b, x; tools defined in system\.tools: calculator, search\.",
        ),
        ("planner", {"tools": ["search"]}, "only expert and reader can use tools"),
        ("other", {}, r"names other; the toy system's agents are expert, planner, reader\."),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(agent: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check(**{agent: AgentSettings(**changes)})


def test_the_tools_of_all_agents_are_those_that_may_be_called() -> None:
    settings = [AgentSettings(tools=["search"]), ModelSettings(), AgentSettings(tools=["search", "calculator"])]
    assert list_tools(settings) == {"search", "calculator"}
    assert (AgentSettings().retry_limit, AgentSettings().max_steps) == (3, 10)
