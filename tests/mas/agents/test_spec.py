"""Settings of agents: the edges of their ranges, and what cannot be right is refused by name."""

from typing import Any

import dspy
import pytest

from mas.agents.spec import AgentSettings, AgentSpec, ModelSettings, check_agents, list_tools, make_toolbox
from mas.runtime.errors import UserError
from mas.systems.toy.program import Solve
from mas.tools.calculator import calculator
from mas.tools.catalogue import BROWSER
from mas.tools.read_file import read_file
from mas.tools.tool_context import Resources

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


SENTENCES: list[tuple[str, dict[str, Any], str]] = [
    ("expert", {"retry_limit": 0}, "system.agents.expert.retry_limit=0 is too small; at least 1 is needed."),
    ("expert", {"max_steps": -1}, "system.agents.expert.max_steps=-1 is too small; at least 1 is needed."),
    ("reader", {"temperature": 2.01}, "system.agents.reader.temperature=2.01 is out of range; expected 0 to 2."),
    ("reader", {"max_tokens": 0}, "system.agents.reader.max_tokens=0 is too small; at least 1 is needed."),
    (
        "planner",
        {"tools": ["nothing"]},
        "system.agents.planner.tools is set, but only expert and reader can use tools.",
    ),
    (
        "reader",
        {"tools": ["z", BROWSER, "a", "search"]},
        "system.agents.reader.tools names a, z; tools defined in system.tools: calculator, search.",
    ),
]


@pytest.mark.parametrize(("agent", "changes", "sentence"), SENTENCES)
def test_a_mistake_is_told_in_one_sentence(agent: str, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        check(**{"planner": AgentSettings(), agent: AgentSettings(**changes)})
    assert str(caught.value) == sentence


def test_without_any_tool_the_sentence_says_so() -> None:
    with pytest.raises(UserError, match=r"names search; tools defined in system\.tools: none\.$"):
        check_agents("toy", AGENTS, {"expert": AgentSettings(tools=["search"])}, {})


def test_settings_of_a_model_alone_are_checked_for_every_agent() -> None:
    check(planner=ModelSettings("strong", 0.0, 1), expert=ModelSettings())
    with pytest.raises(UserError, match=r"^system\.agents\.planner\.temperature=3 is out of range"):
        check(planner=ModelSettings(temperature=3))
    assert list_tools([ModelSettings()]) == set()


def test_a_spec_says_nothing_unless_it_is_told() -> None:
    assert AgentSpec("planner") == AgentSpec("planner", "", False, None)
    assert AgentSettings() == AgentSettings(None, None, None, 3, [], 10)


def test_each_predictor_is_a_new_one_of_its_signature() -> None:
    spec = AgentSpec("solve", "mas.systems.toy.program.Solve")
    first, second = spec.make_predictor(), spec.make_predictor()
    assert first is not second
    assert first.signature is second.signature is Solve


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_a_toolbox_has_the_tools_that_are_named_under_their_configured_names() -> None:
    tools = {
        "sums": "mas.tools.calculator.calculator",
        "files": "mas.tools.read_file.read_file",
        "other": "no.such.function",
    }
    resources = Resources()
    box = make_toolbox(AgentSettings(tools=["files", "sums", BROWSER], max_steps=4), tools, resources)
    assert (list(box.tools), box.max_steps, box.resources) == (["files", "sums"], 4, resources)
    assert {name: (tool.name, tool.func) for name, tool in box.tools.items()} == {
        "files": ("files", read_file),
        "sums": ("sums", calculator),
    }
    with pytest.raises(UserError, match=r"no\.such\.function cannot be loaded"):
        make_toolbox(AgentSettings(tools=["other"]), tools, resources)


def test_the_tools_of_an_open_browser_come_after_the_agents_own(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def build(session: object) -> dict[str, dspy.Tool]:
        opened.append(session)
        return {"open_page": dspy.Tool(add, name="open_page")}

    monkeypatch.setattr("mas.tools.browser.tools.build_browser_tools", build)
    resources = Resources(services={BROWSER: "session"})
    tools = {"sums": "mas.tools.calculator.calculator"}
    assert list(make_toolbox(AgentSettings(tools=[BROWSER, "sums"]), tools, resources).tools) == ["sums", "open_page"]
    assert list(make_toolbox(AgentSettings(tools=["sums"]), tools, resources).tools) == ["sums"]
    assert opened == ["session"]
