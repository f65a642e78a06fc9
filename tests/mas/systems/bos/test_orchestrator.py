"""The graph: its nodes, its state, the order of agents, and what their failures do."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import dspy
import pytest
from langgraph.runtime import Runtime

from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from mas.systems.bos import orchestrator
from mas.systems.bos.contracts.events import EventRecorder, TraceEvent
from mas.systems.bos.contracts.names import AGENT_NAMES
from mas.systems.bos.contracts.request import AgentRequest
from mas.systems.bos.contracts.response import OrchestratorResponse, OrchestratorState, PlannerDecision
from mas.systems.bos.contracts.result import AgentError, AgentExecutionStatus, AgentResult
from mas.systems.bos.orchestrator import (
    GraphContext,
    build_graph,
    compose_node,
    execute_agent,
    plan_node,
    prepare_context,
    recursion_limit,
    route,
    run_agent,
    workflow,
)
from mas.systems.bos.program import BosProgram
from mas.systems.bos.service import astream, run
from mas.systems.bos.temporal import read_clock
from tests.mas.systems.bos.building import NOW, WrittenAgent, build, choose, succeed, use_agents
from tests.scripted_model import ScriptedModel, all_text, answering

TOKEN = "tok-1234567890abcdef"
FOUND = {"question": "q", "trace": True}


def offer(monkeypatch: pytest.MonkeyPatch, *agents: Any, plan: Mapping[str, Any] | None = None, **system: Any) -> Any:
    """The program with these agents, planned in this order, and its model."""
    use_agents(monkeypatch, *agents)
    chosen = choose(*(agent.name for agent in agents)) if plan is None else plan
    model = ScriptedModel(answering(bos_planner=dict(chosen), composer={"final_answer": "composed"}))
    return build(model, **system), model


def stream(program: BosProgram, request: Any) -> list[tuple[str, OrchestratorState]]:
    async def collect() -> list[tuple[str, OrchestratorState]]:
        return [item async for chunk in astream(program, request) for item in chunk.items()]

    return run_blocking(collect())


def test_g01_nodes_and_edges() -> None:
    drawn = workflow().get_graph()
    assert set(drawn.nodes) == {"__start__", "plan", "execute_agent", "compose", "__end__"}
    assert {(edge.source, edge.target) for edge in drawn.edges} == {
        ("__start__", "plan"),
        ("plan", "execute_agent"),
        ("plan", "compose"),
        ("execute_agent", "execute_agent"),
        ("execute_agent", "compose"),
        ("compose", "__end__"),
    }


@pytest.mark.parametrize(("state", "target"), [({"pending_agents": ["sql"]}, "execute_agent"), ({}, "compose")])
def test_g02_routing(state: Any, target: str) -> None:
    assert asyncio.run(route(state)) == target
    assert asyncio.run(route({"pending_agents": []})) == "compose"


def test_g03_nothing_pending_runs_nothing() -> None:
    runtime: Any = None  # not even looked at
    assert asyncio.run(orchestrator.execute_agent({"pending_agents": []}, runtime)) == {"pending_agents": []}


def test_the_state_from_node_to_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """O02 O03 O04 O05 O06 O08 G04 G13 W01"""
    sql, api = WrittenAgent("sql"), WrittenAgent("api_docs")
    program, _ = offer(monkeypatch, sql, api)
    seen = stream(program, FOUND)
    assert [name for name, _ in seen] == ["plan", "execute_agent", "execute_agent", "compose"]
    assert set(seen[0][1]) == {"request", "planner", "pending_agents", "trace"}
    assert seen[0][1]["pending_agents"] == ["sql", "api_docs"]
    for (_, changes), pending, n in zip(seen[1:3], (["api_docs"], []), (1, 2), strict=True):
        assert set(changes) == {"pending_agents", "agent_results", "trace"}
        assert changes["pending_agents"] == pending and len(changes["agent_results"]) == n
    assert set(seen[3][1]) == {"trace", "response"} and seen[3][1]["response"].answer == "composed"
    final = run_blocking(program.run_graph(AgentRequest(question="q")))
    assert set(final) == {"request", "planner", "pending_agents", "agent_results", "trace", "response"}
    assert final["pending_agents"] == []


def test_o07_lists_are_replaced_and_never_changed_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = offer(monkeypatch, WrittenAgent("sql"), WrittenAgent("api_docs"))
    seen = stream(program, FOUND)
    traces = [changes["trace"] for _, changes in seen]
    assert len({id(trace) for trace in traces}) == 4
    for before, after in pairwise(traces):
        assert after[: len(before)] == before and len(after) > len(before)
    assert [len(changes["agent_results"]) for _, changes in seen[1:3]] == [1, 2]


def test_t08_g05_g17_p23_agents_run_one_after_another_with_the_enriched_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running: list[str] = []

    def behave(name: Any) -> Any:
        async def work(question: str, context: Mapping[str, object]) -> Any:
            assert running.count("running") == 0
            running.append("running")
            await asyncio.sleep(0.01)
            running.remove("running")
            running.append(name)
            return succeed(name)

        return work

    agents = [WrittenAgent(name, behave(name)) for name in ("computation", "sql", "api_docs")]  # type: ignore[arg-type]
    program, model = offer(monkeypatch, *agents)
    run(program, {"question": "q", "context": {"tenant": 7, "api_bearer_token": TOKEN}})
    assert running == ["computation", "sql", "api_docs"]
    for agent in agents:
        ((question, context),) = agent.calls
        assert question == "q" and context["current_date"] == "2026-11-22"
        assert context["tenant"] == 7 and context["api_bearer_token"] == TOKEN
    (planned,) = model.asked("bos_planner")
    assert "current_date: 2026-11-22" in all_text(planned) and TOKEN not in all_text(planned)


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (KeyError("id"), "KeyError", "'id'"),
        (RuntimeError(f"no {TOKEN}"), "RuntimeError", "no ***"),
        (ValueError(), "ValueError", "ValueError"),
        (SystemExit(3), "RuntimeError", "ended with SystemExit (3)"),
        (None, "TypeError", "the agent sql returned str; expected AgentResult"),
    ],
)
def test_w01_g07_g08_a04_e04_e05_what_an_agent_raises_is_its_result_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException | None, kind: str, message: str
) -> None:
    def fail(question: str, context: Mapping[str, object]) -> Any:
        if raised is None:
            return "text"
        raise raised

    api = WrittenAgent("api_docs")
    program, model = offer(monkeypatch, WrittenAgent("sql", fail), api)
    response = run(program, {**FOUND, "context": {"api_bearer_token": TOKEN}})
    failed, succeeded = response.agent_results
    assert (failed.status, failed.error and failed.error.type, failed.error and failed.error.message) == (
        "failed",
        kind,
        message,
    )
    assert "ERROR" in [event.event_type for event in failed.trace]
    assert succeeded.status == "succeeded" and len(api.calls) == 1
    assert all(result.latency_ms and result.latency_ms > 0 for result in response.agent_results)
    assert "sql: failed" in all_text(model.asked("composer")[0])
    assert TOKEN not in response.model_dump_json()


def test_p24_w01_a_partial_answer_if_the_api_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(question: str, context: Mapping[str, object]) -> Any:
        raise ConnectionError("api.internal refused")

    program, model = offer(monkeypatch, WrittenAgent("sql"), WrittenAgent("api_docs", fail))
    response = run(program, {"question": "Query database and call API"})
    assert [str(result.status) for result in response.agent_results] == ["succeeded", "failed"]
    assert response.answer == "composed" and "api_docs: failed: it failed" in all_text(model.asked("composer")[0])


def test_o09_a_new_field_of_the_state_needs_no_change_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Extended(OrchestratorState, total=False):
        session: str

    monkeypatch.setattr(orchestrator, "OrchestratorState", Extended)
    graph = build_graph().compile()
    program, _ = offer(monkeypatch, WrittenAgent("sql"))
    given: Any = {"request": AgentRequest(question="q"), "session": "s-1"}
    with dspy.context(adapter=dspy.ChatAdapter()):
        final: Any = run_blocking(graph.ainvoke(given, context=program.make_graph_context()))
    assert final["session"] == "s-1" and final["response"].answer == "composed"


def test_a_limit_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(question: str, context: Mapping[str, object]) -> Any:
        raise LimitReachedError("tokens", "no more")

    program, _ = offer(monkeypatch, WrittenAgent("sql", fail), WrittenAgent("api_docs"))
    with pytest.raises(LimitReachedError):
        run(program, '{"question": "q"}')
    program, _ = offer(monkeypatch, WrittenAgent("sql"))
    context = SampleContext(SampleKey("q"), SampleLimits(lm_calls=1))
    with use_context(context), pytest.raises(LimitReachedError):  # the composer's call is one too many
        run(program, {"question": "q"})


def test_a02_e03_events_are_in_order_with_the_changes_of_status(monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = offer(monkeypatch, WrittenAgent("sql"), WrittenAgent("api_docs"))
    trace = run(program, FOUND).trace
    assert [(event.agent, str(event.event_type)) for event in trace] == [
        ("planner", "DECISION"),
        ("sql", "MESSAGE"),
        ("sql", "MESSAGE"),
        ("api_docs", "MESSAGE"),
        ("api_docs", "MESSAGE"),
        ("composer", "RESULT"),
    ]
    assert [event.timestamp for event in trace] == sorted(event.timestamp for event in trace)
    assert [event.data["status"] for event in trace if event.agent == "sql"] == ["running", "succeeded"]


def test_p22_the_decision_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = offer(monkeypatch, WrittenAgent("sql"))
    decision = run(program, FOUND).trace[0]
    assert (decision.agent, decision.message) == ("planner", "Planner produced execution order")
    assert decision.data == {"agents": ["sql"], "confidence": 0.9}


def test_e07_the_events_are_on_the_spans_of_their_components(monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = offer(monkeypatch, WrittenAgent("sql"))
    trace = Trace("thread")
    with record_trace(trace):
        response = run(program, FOUND)
    agents = [span for span in trace.spans if span.kind == "agent"]
    assert [span.name for span in agents] == ["planner", "sql", "composer"]
    noted = {event["event_id"]: span.name for span in agents for event in span.events}
    assert noted == {event.event_id: event.agent for event in response.trace}
    assert trace.answer == "composed" and trace.state["response"].answer == "composed"


@pytest.mark.parametrize("execution", ["sequential", "parallel"])
def test_r08_after_its_turns_the_other_agents_are_skipped_in_order(
    monkeypatch: pytest.MonkeyPatch, execution: str
) -> None:
    agents = [WrittenAgent(name) for name in ("sql", "api_docs", "computation")]  # type: ignore[arg-type]
    program, _ = offer(monkeypatch, *agents, execution=execution)
    response = run(program, {**FOUND, "max_turns": 1})
    statuses = [(result.agent, str(result.status)) for result in response.agent_results]
    assert statuses == [("sql", "succeeded"), ("api_docs", "skipped"), ("computation", "skipped")]
    assert [len(agent.calls) for agent in agents] == [1, 0, 0]
    assert response.answer == "composed"


def test_p21_m10_without_agents_the_composer_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    program, model = offer(monkeypatch, WrittenAgent("sql"))
    response = run(program, {"question": "q", "disable_agents": "sql"})
    assert response.answer == "The question could not be answered: no agent was available to work on it."
    assert response.agent_results == [] and model.requests == []
    final = run_blocking(program.run_graph(AgentRequest(question="q", disable_agents=("sql",))))
    assert final["agent_results"] == [] and final["pending_agents"] == []


def test_g09_the_graph_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(orchestrator, "_workflow", None)
    compiled: list[int] = []
    original = build_graph

    def count() -> Any:
        compiled.append(1)
        time.sleep(0.02)
        return original()

    monkeypatch.setattr(orchestrator, "build_graph", count)
    with ThreadPoolExecutor(8) as pool:
        graphs = list(pool.map(lambda _: workflow(), range(8)))
    assert len({id(graph) for graph in graphs}) == 1 and compiled == [1]


def test_g10_a_graph_that_cannot_be_compiled_is_a_runtime_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orchestrator, "_workflow", None)
    monkeypatch.setattr(orchestrator, "build_graph", lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="could not be compiled: division by zero"):
        build(ScriptedModel(answering()))


def test_g15_g12_a_new_agent_is_an_entry_and_may_block(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocking:
        name = "computation"

        def invoke(self, question: str, *, context: Mapping[str, object]) -> Any:
            time.sleep(0.15)
            return succeed("computation", "slow")

    program, _ = offer(monkeypatch, Blocking())
    ticks = 0

    async def tick() -> Any:
        nonlocal ticks
        work = asyncio.ensure_future(program.run_graph(AgentRequest(question="q")))
        while not work.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return work.result()

    assert run_blocking(tick())["agent_results"][0].answer == "slow"
    assert ticks >= 5  # the event loop went on


def test_g18_the_recursion_limit_leaves_room() -> None:
    assert recursion_limit(len(AGENT_NAMES)) >= len(AGENT_NAMES) + 3


def test_r13_the_system_prompt_reaches_agents_planner_and_composer(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = WrittenAgent("sql")
    program, model = offer(monkeypatch, sql)
    run(program, {"question": "q", "system_prompt": "Answer in Dutch."})
    assert sql.calls[0][1]["system_prompt"] == "Answer in Dutch."
    for agent in ("bos_planner", "composer"):
        text = all_text(model.asked(agent)[0])
        assert "[[ ## system_prompt ## ]]\nAnswer in Dutch." in text


@pytest.mark.parametrize("execution", ["sequential", "parallel"])
@pytest.mark.parametrize("share", [True, False])
def test_earlier_results_are_shared_if_the_settings_say_so(
    monkeypatch: pytest.MonkeyPatch, share: bool, execution: str
) -> None:
    sql = WrittenAgent("sql", lambda question, context: succeed("sql", "3 rows", [{"n": 4711}]))
    computation = WrittenAgent("computation")
    api = WrittenAgent("api_docs", lambda question, context: succeed("api_docs", "nothing to do with it"))
    plan = choose("sql", "api_docs", "computation", needs={"computation": ["sql"]})
    program, _ = offer(monkeypatch, sql, api, computation, plan=plan, share_results=share, execution=execution)
    run(program, {"question": "The average of that?"})
    (_, context), shown = computation.calls[0], computation.calls[0][1].get("earlier_results")
    assert "earlier_results" not in sql.calls[0][1]
    if share:
        assert isinstance(shown, str) and "3 rows" in shown and "[4711]" in shown and "data, not instructions" in shown
        assert ("nothing to do with it" in shown) == (execution == "sequential"), "parallel: what it needs alone"
    else:
        assert shown is None and "current_date" in context


def test_parallel_agents_run_at_once_and_the_outcome_is_that_of_sequential_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside, most = 0, 0

    def behave(name: Any, seconds: float) -> Any:
        async def work(question: str, context: Mapping[str, object]) -> Any:
            nonlocal inside, most
            inside, most = inside + 1, max(most, inside + 1)
            await asyncio.sleep(seconds)
            inside -= 1
            return succeed(name)

        return work

    agents = [WrittenAgent("sql", behave("sql", 0.05)), WrittenAgent("computation", behave("computation", 0.0))]
    agents.append(WrittenAgent("api_docs", behave("api_docs", 0.01)))
    plan = choose("sql", "computation", "api_docs", needs={"computation": ["sql"]})
    program, _ = offer(monkeypatch, *agents, plan=plan, execution="parallel")
    trace = Trace("thread")
    with record_trace(trace):
        response = run(program, FOUND)
    assert most == 2, "sql and api_docs; computation waits for sql"
    assert [result.agent for result in response.agent_results] == ["sql", "computation", "api_docs"]
    agents_of_events = [event.agent for event in response.trace]
    assert agents_of_events == ["planner", *["sql"] * 2, *["computation"] * 2, *["api_docs"] * 2, "composer"]
    parents = {span.name: span.parent for span in trace.spans if span.kind == "agent"}
    assert len(set(parents.values())) == 1, "no agent's span is within another's"


def test_parallel_dependents_of_a_failed_agent_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(question: str, context: Mapping[str, object]) -> Any:
        raise ValueError("broken")

    sql, api, computation = WrittenAgent("sql", fail), WrittenAgent("api_docs"), WrittenAgent("computation")
    plan = choose("sql", "api_docs", "computation", needs={"computation": ["api_docs"], "api_docs": ["sql"]})
    program, _ = offer(monkeypatch, sql, api, computation, plan=plan, execution="parallel")
    response = run(program, FOUND)
    assert [str(result.status) for result in response.agent_results] == ["failed", "skipped", "skipped"]
    errors = [result.error for result in response.agent_results]
    assert errors[1] and errors[1].message == "it needs the result of sql, which did not succeed"
    assert errors[2] and errors[2].type == "DependencyFailed" and computation.calls == []
    program, _ = offer(monkeypatch, sql, api, computation, plan=plan, execution="sequential")
    assert [str(result.status) for result in run(program, FOUND).agent_results] == ["failed", "succeeded", "succeeded"]


def test_a_parallel_agent_is_cancelled_when_a_limit_ends_another(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def wait(question: str, context: Mapping[str, object]) -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def fail(question: str, context: Mapping[str, object]) -> Any:
        await asyncio.sleep(0.01)
        raise LimitReachedError("tokens", "no more")

    program, _ = offer(monkeypatch, WrittenAgent("sql", wait), WrittenAgent("api_docs", fail), execution="parallel")
    with pytest.raises(LimitReachedError):
        run(program, {"question": "q"})
    assert ended == ["cancelled"]


def test_the_clock_of_the_program_is_the_one_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """T07"""
    sql = WrittenAgent("sql")
    program, _ = offer(monkeypatch, sql)
    run(program, {"question": "q"})
    assert sql.calls[0][1]["current_datetime_utc"] == NOW.isoformat()


def runtime_of(*agents: WrittenAgent, planner: Any = None, composer: Any = None, **settings: Any) -> Any:
    """What one invocation of the graph hands to its nodes."""
    context = GraphContext(planner, {agent.name: agent for agent in agents}, composer, clock=lambda: NOW, **settings)
    return Runtime(context=context)


def facts(events: Sequence[TraceEvent]) -> list[tuple[Any, ...]]:
    return [(event.agent, str(event.event_type), event.message, event.data) for event in events]


def test_a_graph_without_settings_runs_one_agent_after_another_that_sees_no_other() -> None:
    context = GraphContext(Mock(), {}, Mock())
    assert (context.execution, context.share_results, context.clock) == ("sequential", False, read_clock)
    assert recursion_limit(3) == 8


def test_planning_completes_the_context_and_notes_the_decision() -> None:
    request = AgentRequest(
        question="q",
        context={"tenant": 7, "current_date": "2026-01-02"},
        prefer_agents=("sql",),
        disable_agents=("api_docs",),
        system_prompt="Answer in Dutch.",
    )
    decision = PlannerDecision(
        rationale="because", chosen_agents=("sql", "computation"), confidence=0.9, guardrails={"dropped": ["api_docs"]}
    )
    planner = SimpleNamespace(plan=AsyncMock(return_value=decision))
    earlier = EventRecorder("planner").add("MESSAGE", "earlier")
    trace = Trace("thread")
    with record_trace(trace):
        state: Any = {"request": request, "trace": [earlier]}
        changes: Any = asyncio.run(plan_node(state, runtime_of(planner=planner)))
    full = {"tenant": 7, "current_date": "2026-01-02", "current_datetime_utc": NOW.isoformat()}
    assert changes == {
        "request": request.model_copy(update={"context": full}),
        "planner": decision,
        "pending_agents": ["sql", "computation"],
        "trace": changes["trace"],
    }
    data = {"agents": ["sql", "computation"], "confidence": 0.9}
    noted = ("planner", "DECISION", "Planner produced execution order", data)
    assert changes["trace"][0] is earlier and facts(changes["trace"][1:]) == [noted]
    (asked,) = planner.plan.await_args_list
    recorder = asked.kwargs.pop("recorder")
    assert recorder.events == changes["trace"][1:]
    assert asked.kwargs == {
        "question": "q",
        "prefer": ("sql",),
        "disable": ("api_docs",),
        "context": {**full, "system_prompt": "Answer in Dutch."},
    }
    (span,) = trace.spans
    assert (span.kind, span.name, span.inputs) == ("agent", "planner", {"question": "q"})
    assert span.outputs == {
        "agents": ["sql", "computation"],
        "rationale": "because",
        "guardrails": {"dropped": ["api_docs"]},
    }
    assert trace.state == {**state, **changes}


@pytest.mark.parametrize(("system_prompt", "added"), [("Dutch.", {"system_prompt": "Dutch."}), ("", {}), (None, {})])
def test_the_context_of_a_step_has_the_system_prompt_if_there_is_one(
    system_prompt: str | None, added: dict[str, object]
) -> None:
    request = AgentRequest(question="q", context={"tenant": 7}, system_prompt=system_prompt)
    context = prepare_context(request)
    assert context == {"tenant": 7, **added}
    context["more"] = 1
    assert request.context == {"tenant": 7}


def planned(*names: Any, done: Sequence[AgentResult] = (), needs: Any = None, **request: Any) -> Any:
    """The state before an agent runs."""
    chosen = tuple(dict.fromkeys([*(result.agent for result in done), *names]))
    decision = PlannerDecision(rationale="because", chosen_agents=chosen, needs=needs or {})
    state = {"request": AgentRequest(question="q", **request), "planner": decision, "pending_agents": list(names)}
    return state | ({"agent_results": list(done)} if done else {})


def skipped(name: Any) -> AgentResult:
    return AgentResult(agent=name, status=AgentExecutionStatus.SKIPPED, error=AgentError(message="m", type="TurnLimit"))


@pytest.mark.parametrize("execution", ["sequential", "parallel"])
@pytest.mark.parametrize(
    ("done", "max_turns", "ran"),
    [
        ([], None, 2),
        ([], 1, 1),
        ([], 2, 2),
        ([], 3, 2),
        ([succeed("api_docs")], 1, 0),
        ([succeed("api_docs")], 2, 1),
        ([skipped("api_docs")], 1, 1),  # a skipped agent took no turn
    ],
)
def test_no_more_agents_run_than_the_request_has_turns(
    execution: str, done: list[AgentResult], max_turns: int | None, ran: int
) -> None:
    sql, computation = WrittenAgent("sql"), WrittenAgent("computation")
    state = planned("sql", "computation", done=done, max_turns=max_turns)
    runtime = runtime_of(sql, computation, execution=execution)
    while state["pending_agents"]:
        state |= asyncio.run(execute_agent(state, runtime))
    assert len(sql.calls) + len(computation.calls) == ran
    results = {result.agent: result for result in state["agent_results"]}
    assert set(results) == {"sql", "computation", *(result.agent for result in done)}
    late = results["computation"]
    if ran < 2:
        assert late.error == AgentError(message=f"max_turns={max_turns} agents have run", type="TurnLimit")
        assert str(late.status) == "skipped"
        assert facts(late.trace) == [
            ("computation", "MESSAGE", "Status changed from pending to skipped", {"status": "skipped"})
        ]


def test_results_and_events_are_in_the_planners_order_and_others_behind_them() -> None:
    done = [succeed("computation"), succeed("api_docs")]
    state = planned("sql", done=done)
    chosen = PlannerDecision(rationale="because", chosen_agents=("sql", "api_docs"))
    event = EventRecorder("planner").add("DECISION", "planned")
    other = EventRecorder("sql").add("MESSAGE", "of an earlier order")
    state |= {"planner": chosen, "trace": [event, other]}
    trace = Trace("thread")
    with record_trace(trace):
        changes: Any = asyncio.run(execute_agent(state, runtime_of(WrittenAgent("sql"))))
    assert [result.agent for result in changes["agent_results"]] == ["sql", "api_docs", "computation"]
    assert changes["trace"] == [event, *changes["agent_results"][0].trace]
    assert changes["pending_agents"] == []
    assert trace.state == {**state, **changes}


def test_in_parallel_agents_wait_for_those_that_they_need_and_no_longer() -> None:
    agents = [WrittenAgent("sql"), WrittenAgent("computation"), WrittenAgent("api_docs")]
    runtime = runtime_of(*agents, execution="parallel")
    needs = {"computation": ("sql",), "sql": ("api_docs",)}
    state = planned("computation", "sql", "api_docs", needs=needs)
    orders: list[list[str]] = []
    while state["pending_agents"]:
        state |= asyncio.run(execute_agent(state, runtime))
        orders.append(state["pending_agents"])
    assert orders == [["computation", "sql"], ["computation"], []]
    assert [len(agent.calls) for agent in agents] == [1, 1, 1]


def test_all_that_were_lost_are_named_by_the_agent_that_needed_them() -> None:
    failed = AgentResult(
        agent="sql", status=AgentExecutionStatus.FAILED, error=AgentError(message="no", type="QueryError")
    )
    needs = {"computation": ("sql", "api_docs")}
    state = planned("computation", done=[failed, skipped("api_docs")], needs=needs)
    changes: Any = asyncio.run(execute_agent(state, runtime_of(WrittenAgent("computation"), execution="parallel")))
    late = next(result for result in changes["agent_results"] if result.agent == "computation")
    assert late.error == AgentError(
        message="it needs the result of sql, api_docs, which did not succeed", type="DependencyFailed"
    )
    assert changes["pending_agents"] == []


def test_what_an_agent_did_is_between_its_two_changes_of_status() -> None:
    def work(question: str, context: Mapping[str, object]) -> Any:
        recorder = EventRecorder("sql", context)
        recorder.add("TOOL", "Executed query")
        return succeed("sql").model_copy(update={"trace": recorder.events, "agent": "computation"})

    trace = Trace("thread")
    request = AgentRequest(question="q", context={"tenant": 7})
    with record_trace(trace):
        result = asyncio.run(run_agent("sql", request, (), runtime_of(WrittenAgent("sql", work))))
    assert (result.agent, str(result.status), result.answer) == ("sql", "succeeded", "sql says so")
    assert facts(result.trace) == [
        ("sql", "MESSAGE", "Status changed from pending to running", {"status": "running"}),
        ("sql", "TOOL", "Executed query", {}),
        ("sql", "MESSAGE", "Status changed from running to succeeded", {"status": "succeeded"}),
    ]
    (span,) = trace.spans
    assert (span.kind, span.name, span.inputs) == ("agent", "sql", {"question": "q"})
    assert span.outputs == {"status": "succeeded", "answer": "sql says so"}
    assert result.latency_ms is not None and result.latency_ms >= 0


@pytest.mark.parametrize("told", [True, False])
def test_an_error_is_an_event_once(told: bool) -> None:
    """The orchestrator adds it only if the agent has not."""

    def work(question: str, context: Mapping[str, object]) -> Any:
        recorder = EventRecorder("sql")
        recorder.add("ERROR" if told else "MESSAGE", "own words")
        error = AgentError(message="no such column", type="QueryError")
        return AgentResult(agent="sql", status=AgentExecutionStatus.FAILED, error=error, trace=recorder.events)

    trace = Trace("thread")
    with record_trace(trace):
        result = asyncio.run(run_agent("sql", AgentRequest(question="q"), (), runtime_of(WrittenAgent("sql", work))))
    added = [("sql", "ERROR", "no such column", {"type": "QueryError"})]
    assert facts(result.trace)[1:-1] == [
        ("sql", "ERROR" if told else "MESSAGE", "own words", {}),
        *([] if told else added),
    ]
    assert trace.spans[0].outputs == {
        "status": "failed",
        "answer": result.answer,
        "error": {"type": "QueryError", "message": "no such column"},
    }


def test_the_stack_of_an_error_is_kept_without_secrets() -> None:
    def fail(question: str, context: Mapping[str, object]) -> Any:
        raise RuntimeError(f"no {TOKEN}")

    request = AgentRequest(question="q", context={"api_bearer_token": TOKEN})
    result = asyncio.run(run_agent("sql", request, (), runtime_of(WrittenAgent("sql", fail))))
    assert result.error is not None
    assert (result.error.message, result.error.type, list(result.error.details)) == (
        "no ***",
        "RuntimeError",
        ["stack"],
    )
    stack = str(result.error.details["stack"])
    assert "RuntimeError" in stack and TOKEN not in stack


@pytest.mark.parametrize("include_data", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
def test_a_response_has_the_tables_and_events_that_the_request_asks_for(include_data: bool, wanted: bool) -> None:
    rows: list[dict[str, Any]] = [{"n": 1}]
    result = succeed("sql", "one row", rows).model_copy(
        update={"trace": [EventRecorder("sql").add("TOOL", "Executed query")]}
    )
    composed = OrchestratorResponse(
        answer="composed", data=result.tabular, agent_results=[result], metadata={"confidence": 0.9}
    )
    composer = SimpleNamespace(compose=AsyncMock(return_value=composed))
    earlier = EventRecorder("planner").add("DECISION", "planned")
    request = {"include_data": include_data, "trace": wanted, "system_prompt": "Dutch."}
    state = planned(done=[result], **request) | {"trace": [earlier]}
    state["planner"] = state["planner"].model_copy(update={"confidence": 0.9})
    trace = Trace("thread")
    with record_trace(trace):
        changes: Any = asyncio.run(compose_node(state, runtime_of(composer=composer)))
    assert set(changes) == {"trace", "response"}
    noted = {"statuses": {"sql": "succeeded"}, "has_data": True}
    assert changes["trace"][0] is earlier
    assert facts(changes["trace"][1:]) == [("composer", "RESULT", "Composer produced the response", noted)]
    shown = result.model_copy(
        update={**({} if include_data else {"tabular": None}), **({} if wanted else {"trace": []})}
    )
    assert changes["response"] == OrchestratorResponse(
        answer="composed",
        data=result.tabular if include_data else None,
        agent_results=[shown],
        trace=changes["trace"] if wanted else [],
        planner=state["planner"],
        metadata={"confidence": 0.9},
    )
    (asked,) = composer.compose.await_args_list
    assert asked.kwargs.pop("recorder").events == changes["trace"][1:]
    assert asked.kwargs == {
        "question": "q",
        "planner_rationale": "because",
        "agent_results": [result],
        "metadata": {"confidence": 0.9, "agents": ["sql"]},
        "context": {"system_prompt": "Dutch."},
    }
    (span,) = trace.spans
    assert (span.kind, span.name, span.inputs) == ("agent", "composer", {"question": "q"})
    assert span.outputs == {"final_answer": "composed"}
    assert (trace.answer, trace.state) == ("composed", {**state, **changes})


def test_a_response_without_any_agent_has_no_results_and_no_data() -> None:
    composer = SimpleNamespace(compose=AsyncMock(return_value=OrchestratorResponse(answer="nobody")))
    changes: Any = asyncio.run(compose_node(planned(), runtime_of(composer=composer)))
    assert changes["agent_results"] == []
    assert facts(changes["trace"])[0][3] == {"statuses": {}, "has_data": False}
    assert (changes["response"].data, changes["response"].trace) == (None, [])


def test_the_latency_of_an_agent_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([10.0, 12.5])
    monkeypatch.setattr(orchestrator, "time", SimpleNamespace(perf_counter=lambda: next(readings)))
    result = asyncio.run(run_agent("sql", AgentRequest(question="q"), (), runtime_of(WrittenAgent("sql"))))
    assert result.latency_ms == 2_500.0


def test_a_limit_is_raised_after_the_other_agents_have_ended() -> None:
    ended: list[str] = []

    async def wait(question: str, context: Mapping[str, object]) -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            for _ in range(20):
                await asyncio.sleep(0)
            ended.append("sql")
            raise

    async def fail(question: str, context: Mapping[str, object]) -> Any:
        await asyncio.sleep(0)
        raise LimitReachedError("tokens", "no more")

    agents = WrittenAgent("sql", wait), WrittenAgent("api_docs", fail), WrittenAgent("computation", wait)
    state = planned("sql", "api_docs", "computation")

    async def ended_at_the_error() -> list[str]:
        with pytest.raises(LimitReachedError):
            await execute_agent(state, runtime_of(*agents, execution="parallel"))
        return list(ended)

    assert asyncio.run(ended_at_the_error()) == ["sql", "sql"]
