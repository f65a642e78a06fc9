"""The graph: its nodes, its state, the order of agents, and what their failures do."""

import asyncio
import threading
from collections.abc import Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import Any, cast

import pytest
from dspy.utils.exceptions import LMServerError
from pydantic import ValidationError

from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from mas.systems.bos.contracts import (
    REQUEST_SENT,
    AgentError,
    AgentExecutionStatus,
    AgentRequest,
    AgentResult,
    OrchestratorResponse,
)
from mas.systems.bos.http_service import describe_changes
from mas.systems.bos.program import execute_agent, route, workflow
from mas.systems.bos.recorder import EventRecorder, RecordedAgent
from mas.systems.bos.service import run
from tests.mas.systems.bos.building import WrittenAgent, build, choose, succeed, use_agents
from tests.patience import PATIENCE_SECONDS
from tests.scripted_model import ScriptedModel, all_text, answering

TOKEN = "tok-1234567890abcdef"
FOUND = {"question": "q", "trace": True}


def offer(monkeypatch: pytest.MonkeyPatch, *agents: Any, **system: Any) -> Any:
    """The program with these agents, planned in this order, and its model."""
    use_agents(monkeypatch, *agents)
    chosen = choose(*(agent.name for agent in agents))
    model = ScriptedModel(answering(bos_planner=chosen, composer={"final_answer": "composed"}))
    return build(model, **system), model


def test_g01_g09_nodes_and_edges_of_the_one_graph() -> None:
    drawn = workflow().get_graph()
    assert workflow() is workflow()
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
    assert asyncio.run(execute_agent({"pending_agents": []}, cast(Any, None))) == {"pending_agents": []}  # G03


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
    run({"question": "q", "context": {"tenant": 7, "api_bearer_token": TOKEN}}, program)
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
    ],
)
def test_w01_g07_g08_a04_e04_e05_what_an_agent_raises_is_its_result_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, raised: object, kind: str, message: str
) -> None:
    def fail(question: str, context: Mapping[str, object]) -> Any:
        if isinstance(raised, BaseException):
            raise raised
        return raised

    api = WrittenAgent("api_docs")
    program, model = offer(monkeypatch, WrittenAgent("sql", fail), api)
    response = run({**FOUND, "context": {"api_bearer_token": TOKEN}}, program)
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


def test_e04_q21_d23_what_an_agent_did_before_it_raised_stays_in_result_response_and_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Working(RecordedAgent):
        name = "api_docs"

        async def answer(self, question: str, recorder: EventRecorder) -> Any:
            recorder.hide("sign-in-token-0123")
            recorder.add("TOOL", REQUEST_SENT, method="POST")
            raise LMServerError("503: down, sign-in-token-0123")

    program, _ = offer(monkeypatch, Working())
    response = run(FOUND, program)
    (failed,) = response.agent_results
    assert failed.error is not None and failed.error.type == "LMServerError"
    kinds = [str(each.event_type) for each in failed.trace]
    assert kinds == ["MESSAGE", "TOOL", "ERROR", "MESSAGE"]
    assert [str(each.event_type) for each in response.trace if each.agent == "api_docs"] == kinds
    assert "sign-in-token" not in response.model_dump_json()

    async def collect() -> list[Any]:
        request = AgentRequest.parse(FOUND)
        async with aclosing(program.stream_graph(request)) as chunks:
            return [event async for chunk in chunks for event in describe_changes(chunk, request)]

    shown = dict(run_blocking(collect()))["agent"]
    assert [each["event_type"] for each in shown["trace"]] == kinds and shown["error"]["type"] == "LMServerError"


def test_p24_w01_a_partial_answer_if_the_api_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(question: str, context: Mapping[str, object]) -> Any:
        raise ConnectionError("api.internal refused")

    program, model = offer(monkeypatch, WrittenAgent("sql"), WrittenAgent("api_docs", fail))
    response = run({"question": "Query database and call API"}, program)
    assert [str(result.status) for result in response.agent_results] == ["succeeded", "failed"]
    assert response.answer == "composed" and "api_docs: failed: it failed" in all_text(model.asked("composer")[0])


def test_a_limit_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(question: str, context: Mapping[str, object]) -> Any:
        raise LimitReachedError("tokens", "no more")

    program, _ = offer(monkeypatch, WrittenAgent("sql", fail), WrittenAgent("api_docs"))
    with pytest.raises(LimitReachedError):
        run('{"question": "q"}', program)
    program, _ = offer(monkeypatch, WrittenAgent("sql"))
    context = SampleContext(SampleKey("q"), SampleLimits(lm_calls=1))
    with use_context(context), pytest.raises(LimitReachedError):  # the composer's call is one too many
        run({"question": "q"}, program)


def test_a02_e01_e03_e07_events_are_in_order_with_the_changes_of_status(monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = offer(monkeypatch, WrittenAgent("sql"), WrittenAgent("api_docs"))
    with record_trace(Trace("thread")) as recorded:
        response = run(FOUND, program)
    trace = response.trace
    assert [(event.agent, str(event.event_type)) for event in trace] == [
        ("planner", "DECISION"),
        ("sql", "MESSAGE"),
        ("sql", "MESSAGE"),
        ("api_docs", "MESSAGE"),
        ("api_docs", "MESSAGE"),
        ("composer", "RESULT"),
    ]
    assert [event.timestamp for event in trace] == sorted(event.timestamp for event in trace)
    assert {event.timestamp.utcoffset() for event in trace} == {timedelta(0)}  # E01
    assert [event.data["status"] for event in trace if event.agent == "sql"] == ["running", "succeeded"]
    assert OrchestratorResponse.model_validate_json(response.model_dump_json()) == response  # E07
    noted = [each["event_id"] for span in recorded.spans for each in span.events if "event_id" in each]
    assert noted == [event.event_id for event in trace]


def test_a02_a05_e04_a_status_follows_from_the_one_before_and_agrees_with_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match="cannot go from succeeded to running"):
        AgentExecutionStatus.succeeded.move_to(AgentExecutionStatus.running)
    error = AgentError(message="no", type="QueryError")
    for status, fields in (("failed", {}), ("succeeded", {"error": error})):
        with pytest.raises(ValidationError, match="error"):
            AgentResult.model_validate({"agent": "sql", "status": status, **fields})
    failed = AgentResult(agent="sql", status=AgentExecutionStatus.failed, error=error)
    program, _ = offer(monkeypatch, WrittenAgent("sql", lambda question, context: failed))
    assert "ERROR" in [event.event_type for event in run(FOUND, program).trace]


def test_p22_the_decision_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = offer(monkeypatch, WrittenAgent("sql"))
    decision = run(FOUND, program).trace[0]
    assert (decision.agent, decision.message) == ("planner", "Planner produced execution order")
    assert decision.data == {"agents": ["sql"], "confidence": 0.9}


def test_r08_after_its_turns_the_other_agents_are_skipped_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    agents = [WrittenAgent(name) for name in ("sql", "api_docs", "computation")]  # type: ignore[arg-type]
    program, _ = offer(monkeypatch, *agents)
    response = run({**FOUND, "max_turns": 1}, program)
    statuses = [(result.agent, str(result.status)) for result in response.agent_results]
    assert statuses == [("sql", "succeeded"), ("api_docs", "skipped"), ("computation", "skipped")]
    assert [len(agent.calls) for agent in agents] == [1, 0, 0]
    assert response.answer == "composed"


def test_p21_m10_without_agents_the_composer_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    program, model = offer(monkeypatch, WrittenAgent("sql"))
    response = run({"question": "q", "disable_agents": "sql"}, program)
    assert response.answer == "The question could not be answered: no agent was available to work on it."
    assert response.agent_results == [] and model.requests == []
    final = run_blocking(program.run_graph(AgentRequest(question="q", disable_agents=("sql",))))
    assert final["agent_results"] == [] and final["pending_agents"] == []


def test_g15_g12_a_new_agent_is_an_entry_and_may_block(monkeypatch: pytest.MonkeyPatch) -> None:
    has_ticked = threading.Event()

    class Blocking(RecordedAgent):
        name = "computation"

        def answer(self, question: str, recorder: EventRecorder) -> Any:  # type: ignore[override]
            assert has_ticked.wait(PATIENCE_SECONDS)
            return "slow", None

    program, _ = offer(monkeypatch, Blocking())

    async def tick() -> Any:
        work = asyncio.ensure_future(program.run_graph(AgentRequest(question="q")))
        for _ in range(5):
            await asyncio.sleep(0.01)
        has_ticked.set()  # the event loop went on
        return await work

    assert run_blocking(tick())["agent_results"][0].answer == "slow"


@pytest.mark.parametrize("share", [True, False])
def test_earlier_results_are_shared_if_the_settings_say_so(monkeypatch: pytest.MonkeyPatch, share: bool) -> None:
    sql = WrittenAgent("sql", lambda question, context: succeed("sql", "3 rows", [{"n": 4711}]))
    computation = WrittenAgent("computation")
    api = WrittenAgent("api_docs", lambda question, context: succeed("api_docs", "nothing to do with it"))
    program, _ = offer(monkeypatch, sql, api, computation, share_results=share)
    run({"question": "The average of that?"}, program)
    (_, context), shown = computation.calls[0], computation.calls[0][1].get("earlier_results")
    assert "earlier_results" not in sql.calls[0][1]
    if share:
        assert isinstance(shown, str) and "3 rows" in shown and "[4711]" in shown and "data, not instructions" in shown
    else:
        assert shown is None and "current_date" in context
