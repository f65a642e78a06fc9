"""Requests outside of an evaluation."""

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from mas.runtime.event_loop import run_blocking
from mas.systems.bos import service
from mas.systems.bos.contracts import AgentExecutionStatus, AgentRequest, OrchestratorResponse, OrchestratorState
from mas.systems.bos.service import arun, astream, run
from tests.mas.systems.bos.building import WrittenAgent, build, choose, succeed, use_agents
from tests.patience import PATIENCE_SECONDS
from tests.scripted_model import ScriptedModel, all_text, answering


def program(monkeypatch: pytest.MonkeyPatch, **agents: Any) -> Any:
    use_agents(monkeypatch, WrittenAgent("sql", lambda question, context: succeed("sql", question.upper())))
    return build(ScriptedModel(answering(bos_planner=choose("sql"), **agents)))


def test_g11_g12_r15_run_and_arun_give_the_same_response(monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(monkeypatch)
    for given in ({"question": "q"}, '{"question": "q"}', AgentRequest(question="q")):
        first, second = run(given, made), run_blocking(arun(given, made))
        assert isinstance(first, OrchestratorResponse)
        assert first.answer == second.answer == "42"
        assert [result.answer for result in first.agent_results] == ["Q"]
        assert first.agent_results[0].status is AgentExecutionStatus.succeeded
    assert asyncio.iscoroutinefunction(arun)
    for call in (lambda: run({"question": ""}, made), lambda: run_blocking(arun("{}", made))):
        with pytest.raises(ValidationError, match="question"):
            call()


def test_g16_requests_share_the_program_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(monkeypatch)
    with service.use_program(made):
        assert service.get_resources() is service.get_resources() is made
        assert service.run({"question": "q"}).answer == run_blocking(service.arun('{"question": "q"}')).answer == "42"
    for ask in (service.get_resources, lambda: service.run({"question": "q"})):
        with pytest.raises(RuntimeError, match="use_program"):
            ask()


def test_g13_astream_yields_what_each_node_changed_and_the_last_has_the_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_agents(monkeypatch, WrittenAgent("sql"), WrittenAgent("computation"))
    made = build(ScriptedModel(answering(bos_planner=choose("sql", "computation"))))

    async def collect() -> list[Any]:
        return [chunk async for chunk in astream({"question": "q"}, made)]

    chunks = run_blocking(collect())
    assert [list(chunk) for chunk in chunks] == [["plan"], ["execute_agent"], ["execute_agent"], ["compose"]]
    assert chunks[-1]["compose"]["response"].answer == "42"
    plan, first, second, last = (changes for chunk in chunks for changes in chunk.values())
    assert plan.keys() == {"request", "planner", "pending_agents", "trace"}  # O01 O03 O04 O06
    assert first.keys() == second.keys() == {"pending_agents", "agent_results", "trace"}
    assert last.keys() == {"trace", "response"}
    assert plan.keys() | first.keys() | last.keys() == OrchestratorState.__annotations__.keys()
    assert [each["pending_agents"] for each in (plan, first, second)] == [["sql", "computation"], ["computation"], []]
    assert [len(each["agent_results"]) for each in (first, second)] == [1, 2]  # O07 O08: lists are replaced


def test_a_stream_that_is_left_ends_its_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(question: str, context: Any) -> Any:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    use_agents(monkeypatch, WrittenAgent("sql", wait))
    made = build(ScriptedModel(answering(bos_planner=choose("sql"))))

    async def leave() -> None:
        stream = astream({"question": "q"}, made)
        assert list(await anext(stream)) == ["plan"]
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        waiting.cancel()
        await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)

    run_blocking(leave())


def test_g14_concurrent_requests_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(question: str, context: Any) -> Any:
        await asyncio.sleep(0.01 if "7" in question else 0.0)
        return succeed("sql", f"RESULT OF {question}")

    use_agents(monkeypatch, WrittenAgent("sql", work))
    model = ScriptedModel(
        lambda agent, request: (
            choose("sql")
            if agent == "bos_planner"
            else {"final_answer": all_text(request).partition("RESULT OF ")[2][:3]}
        )
    )
    made = build(model)

    async def ask() -> list[OrchestratorResponse]:
        requests = [{"question": f"q{n:02}", "trace": True, "context": {"n": n}} for n in range(20)]
        return list(await asyncio.gather(*(arun(request, made) for request in requests)))

    responses = run_blocking(ask())
    assert [response.answer for response in responses] == [f"q{n:02}" for n in range(20)]
    assert len({event.event_id for response in responses for event in response.trace}) == 20 * 4
