"""The workflow as a graph: its nodes and edges, how long it may run, and what each node writes."""

import asyncio
from typing import Any

import pytest
from langgraph.runtime import Runtime

from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.agents import GraphState, Worker, initial_state
from mas.systems.gaia.graph import recursion_limit, workflow
from mas.systems.gaia.nodes import GraphContext
from tests.mas.systems.gaia.building import LIMITS, start

AGENT_NODES = ("planner", "researcher", "expert", "critic")


def context(limits: dict[Worker, int] = LIMITS) -> Runtime[GraphContext]:
    return Runtime(context=GraphContext({}, {}, limits, 6, "give_up"))


def run_node(name: str, state: Any, runtime: Any = None) -> Any:
    """What the node writes, as the graph itself calls it."""
    call: Any = workflow().nodes[name].bound
    function = call.afunc
    return asyncio.run(function(state) if runtime is None else function(state, runtime))


def test_every_agent_goes_back_to_the_orchestrator_and_the_finalizer_ends() -> None:
    drawn = workflow().get_graph()
    edges = {(edge.source, edge.target, edge.conditional) for edge in drawn.edges}
    assert edges == {
        ("__start__", "input_interface", False),
        ("input_interface", "orchestrator", False),
        *(("orchestrator", name, True) for name in (*AGENT_NODES, "finalizer")),
        *((name, "orchestrator", False) for name in AGENT_NODES),
        ("finalizer", "__end__", False),
    }
    assert workflow() is workflow()


@pytest.mark.parametrize(
    ("planner", "researcher", "expert", "research_steps", "supersteps"),
    [
        (1, 1, 1, 0, 18),
        (1, 1, 1, 1, 22),
        (3, 5, 5, 6, 162),
        (2, 4, 6, 3, 90),
    ],
)
def test_a_run_may_take_four_supersteps_for_each_attempt_and_ten_more(
    planner: int, researcher: int, expert: int, research_steps: int, supersteps: int
) -> None:
    limits: dict[Worker, int] = {"planner": planner, "researcher": researcher, "expert": expert}
    assert recursion_limit(limits, research_steps) == supersteps


def test_the_first_node_writes_the_whole_first_state_and_keeps_it() -> None:
    limits: dict[Worker, int] = {"planner": 2, "researcher": 4, "expert": 6}
    asked = {"question": "How many?", "file": "a.csv", "correlation_id": "thread-1"}
    trace = Trace("thread-1")
    with record_trace(trace):
        written = run_node("input_interface", asked, context(limits))
    assert written == initial_state("How many?", "a.csv", "thread-1", limits)
    assert trace.state == written
    with record_trace(Trace("t")) as other, pytest.raises(ValueError, match="no question was given"):
        run_node("input_interface", {**asked, "question": " "}, context(limits))
    assert other.state == {}


def test_the_orchestrator_writes_only_what_it_changed_and_keeps_the_whole_state() -> None:
    before = start()
    trace = Trace("thread-1")
    with record_trace(trace):
        written = run_node("orchestrator", before)
    assert set(written) == {"current_step", "agent_messages"}
    assert written["current_step"] == "planner"
    assert [message["receiver"] for message in written["agent_messages"]] == ["planner"]
    assert trace.state == {**before, **written}
    (span,) = trace.spans
    assert (span.kind, span.name, span.attributes) == ("orchestrator", "orchestrator", {"after": "input"})


def test_an_agent_writes_only_what_it_changed() -> None:
    state: GraphState = {
        **start(),
        "current_step": "finalizer",
        "retry_failed": True,
        "failing_agent": "planner",
        "critic_planner_feedback": "no plan",
    }
    written = run_node("finalizer", state, context())
    assert set(written) == {"agent_messages", "final_answer", "final_reasoning_trace"}
    assert written["final_answer"] == "The question could not be answered."


@pytest.mark.parametrize(
    ("step", "node"),
    [
        ("planner", "planner"),
        ("critic_planner", "critic"),
        ("researcher", "researcher"),
        ("critic_researcher", "critic"),
        ("expert", "expert"),
        ("critic_expert", "critic"),
        ("finalizer", "finalizer"),
    ],
)
def test_the_orchestrator_is_followed_by_the_node_of_its_step(step: Any, node: str) -> None:
    (branch,) = workflow().builder.branches["orchestrator"].values()
    route: Any = branch.path.afunc  # type: ignore[attr-defined]
    assert asyncio.run(route({**start(), "current_step": step})) == node
