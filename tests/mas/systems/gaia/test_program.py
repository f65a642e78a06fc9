"""The program as a `dspy.Module`: both ways of calling it, threads, copies, `dspy.Evaluate`, saved state."""

import asyncio
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import dspy
import pytest

from mas.agents.chat_adapter import ChatAdapter
from mas.llm.profiles.model import AgentModel
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.agents import AGENTS, Worker, initial_state
from mas.systems.gaia.graph import recursion_limit
from mas.systems.gaia.nodes import GraphContext
from tests.mas.systems.gaia.building import build, csv_file, without_times
from tests.scripted_model import (
    APPROVE,
    STRAIGHT,
    Answer,
    Call,
    ScriptedModel,
    all_text,
    answering,
    in_turn,
    plan,
    reject,
    system_text,
)

THREADS = 16
PATIENCE_SECONDS = 20.0


def eventful() -> dict[str, Any]:
    """A run with research, tools, a failing tool and rejections."""
    return {
        "planner": in_turn(plan("one"), plan("one", "two")),
        "critic_planner": in_turn(reject("one step is missing"), APPROVE),
        "researcher": in_turn(
            [Call("read_file", {"file": "towns.csv"}), Call("read_file", {"file": "absent.csv"})],
            *[STRAIGHT["researcher"]] * 2,
        ),
        "critic_expert": in_turn(reject("check the sum"), APPROVE),
        "expert": in_turn([Call("calculator", {"expression": "7+5"})], *[STRAIGHT["expert"]] * 2),
    }


@pytest.mark.parametrize("native_tools", [True, False])
def test_forward_and_aforward_do_the_same(tmp_path: Path, native_tools: bool) -> None:
    path = csv_file(tmp_path)
    models = [ScriptedModel(answering(**eventful()), native_tools=native_tools) for _ in range(3)]
    synchronous = build(models[0])(question="How many?", file=path)
    on_own_loop = asyncio.run(build(models[1]).acall(question="How many?", file=path))
    on_shared_loop = run_blocking(build(models[2]).acall(question="How many?", file=path))
    for model, prediction in [(models[1], on_own_loop), (models[2], on_shared_loop)]:
        assert model.requests == models[0].requests
        assert set(prediction.keys()) == {"final_answer", "final_reasoning_trace", "state"}
        assert without_times(prediction.state) == without_times(synchronous.state)
        assert (prediction.final_answer, prediction.final_reasoning_trace) == (
            synchronous.final_answer,
            synchronous.final_reasoning_trace,
        )


def by_question(agent: str, request: Any) -> Answer:
    """Answers with the number in the question, wherever in the conversation it stands."""
    number = re.findall(r"number (\d+)", all_text(request))
    if agent == "finalizer":
        return {"final_answer": number[0], "final_reasoning_trace": "as asked"}
    return STRAIGHT[agent]


def test_sixteen_threads_each_get_their_own_answer() -> None:
    program = build(ScriptedModel(by_question, reply_seconds=0.001))
    together = threading.Barrier(THREADS, timeout=PATIENCE_SECONDS)

    def ask(number: int) -> str:
        together.wait()
        return str(program(question=f"What is number {number}?").final_answer)

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(ask, range(THREADS))) == [str(number) for number in range(THREADS)]


def test_many_questions_at_once_on_one_loop_keep_apart() -> None:
    program = build(ScriptedModel(by_question, reply_seconds=0.001))

    async def everything() -> list[str]:
        questions = [program.acall(question=f"What is number {number}?") for number in range(THREADS)]
        return [str(prediction.final_answer) for prediction in await asyncio.gather(*questions)]

    assert asyncio.run(everything()) == [str(number) for number in range(THREADS)]


def test_attachments_of_questions_side_by_side_keep_apart(tmp_path: Path) -> None:
    """Every question has a file of the same name and another content."""

    def script(agent: str, request: Any) -> Answer:
        if agent == "planner":
            return plan("read it")
        if agent == "researcher" and not re.search(r"town \d+", all_text(request)):
            return [Call("read_file", {"file": "it.csv"})]
        if agent == "researcher":
            return {"result": re.findall(r"town (\d+)", all_text(request))[0]}
        if agent == "finalizer":
            return STRAIGHT["finalizer"]
        return STRAIGHT[agent]

    files = [tmp_path / str(number) / "it.csv" for number in range(THREADS)]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(f"name\ntown {number}\n")
    program = build(ScriptedModel(script))

    async def everything() -> list[Any]:
        predictions = await asyncio.gather(*(program.acall(question="Which?", file=file) for file in files))
        return [prediction.state["research_results"] for prediction in predictions]

    assert asyncio.run(everything()) == [[str(number)] for number in range(THREADS)]


def test_called_synchronously_on_its_own_loop_it_says_what_to_do() -> None:
    program = build(ScriptedModel(answering()))

    async def wrongly() -> Any:
        return program(question="How many?")

    with pytest.raises(RuntimeError, match="await the async form instead"):
        asyncio.run_coroutine_threadsafe(wrongly(), background_loop()).result(PATIENCE_SECONDS)


def test_it_runs_inside_dspy_evaluate() -> None:
    program = build(ScriptedModel(by_question))
    examples = [
        dspy.Example(question=f"What is number {number}?", answer=str(number % 7)).with_inputs("question")
        for number in range(10)
    ]

    def same(example: Any, prediction: Any, trace: Any = None) -> bool:
        return bool(example.answer == prediction.final_answer)

    evaluate = dspy.Evaluate(devset=examples, metric=same, num_threads=4, display_progress=False, max_errors=1)
    result = evaluate(program)
    assert result.score == 70.0
    assert [prediction.final_answer for _, prediction, _ in result.results] == [str(number) for number in range(10)]


@pytest.mark.parametrize("synchronous", [True, False])
def test_the_callers_dspy_trace_gets_an_entry_for_each_predictor_call(tmp_path: Path, synchronous: bool) -> None:
    model = ScriptedModel(answering(**eventful()))
    program = build(model)
    with dspy.context(trace=[]):
        if synchronous:
            program(question="How many?", file=csv_file(tmp_path))
        else:
            asyncio.run(program.acall(question="How many?", file=csv_file(tmp_path)))
        entries = list(dspy.settings.trace)
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    assert [names[id(predictor)] for predictor, _, _ in entries] == model.agents_asked
    for _, inputs, outputs in entries:
        assert inputs and isinstance(outputs, dspy.Prediction)


def test_usage_tracking_of_the_caller_sees_every_call() -> None:
    program = build(ScriptedModel(answering()))
    with dspy.context(track_usage=True):
        usage = program(question="How many?").get_lm_usage()
    assert usage["scripted/scripted"]["prompt_tokens"] == 5 * 11


def test_a_caller_without_lms_of_the_programs_own_may_give_one_by_context() -> None:
    program = build(ScriptedModel(answering()))
    for predictor in program.predictors():
        predictor.lm = None
    model = ScriptedModel(answering())
    with dspy.context(lm=model.create_lm(AgentModel())):
        assert program(question="How many?").final_answer == "42"
    assert len(model.requests) == 5


def instructed(program: Any, word: str) -> Any:
    copied = program.deepcopy()
    for name, predictor in copied.named_predictors():
        predictor.signature = predictor.signature.with_instructions(f"You are {word}, the {name}.")
    return copied


def test_deep_copies_in_sixteen_threads_each_send_their_own_text() -> None:
    """Acceptance 5, within one process."""
    model = ScriptedModel(by_question, reply_seconds=0.001)
    original = build(model)
    copies = {word: instructed(original, word) for word in ("Alpha", "Beta")}
    together = threading.Barrier(THREADS, timeout=PATIENCE_SECONDS)

    def ask(number: int) -> None:
        together.wait()
        copies["Alpha" if number % 2 else "Beta"](question=f"What is number {number}?")

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(ask, range(THREADS)))
    seen = 0
    for agent, request in model.requests:
        if agent not in ("planner", "finalizer"):
            continue
        number = int(re.findall(r"number (\d+)", all_text(request))[0])
        mine, other = ("Alpha", "Beta") if number % 2 else ("Beta", "Alpha")
        assert f"You are {mine}, the {agent}." in system_text(request)
        assert other not in system_text(request)
        seen += 1
    assert seen == 2 * THREADS
    texts = [system_text(request) for agent, request in model.requests if agent == "expert"]
    assert [sum(word in text for text in texts) for word in ("Alpha", "Beta")] == [THREADS // 2] * 2
    assert "Alpha" not in json.dumps(original.dump_state(), default=repr)


def test_a_deep_copy_answers_like_the_original(tmp_path: Path) -> None:
    models = [ScriptedModel(answering(**eventful())) for _ in range(2)]
    original, other = build(models[0]), build(models[1])
    first = original(question="How many?", file=csv_file(tmp_path))
    second = other.deepcopy()(question="How many?", file=csv_file(tmp_path))
    assert without_times(first.state) == without_times(second.state)
    assert models[0].requests == models[1].requests


def test_the_graph_takes_a_question_in_and_sets_every_field() -> None:
    model = ScriptedModel(answering())
    program = build(model, limits={"planner": 2, "researcher": 4, "expert": 6})
    trace = Trace("thread-7")
    states: list[dict[str, Any]] = []
    trace.observe = lambda each: states.append(trace.state)  # type: ignore[method-assign]
    with record_trace(trace):
        program(question="How many?")
    first = states[0]
    assert first == initial_state("How many?", None, "thread-7", {"planner": 2, "researcher": 4, "expert": 6})
    for question in ("", " \n"):
        with pytest.raises(ValueError, match="no question was given"):
            program(question=question)
    assert model.agents_asked.count("planner") == 1


def test_the_predictors_are_exactly_the_seven_agents() -> None:
    program = build(ScriptedModel(answering()))
    assert [name for name, _ in program.named_predictors()] == list(AGENTS)
    assert [name for name, _ in program.deepcopy().named_predictors()] == list(AGENTS)


def test_every_signature_differs_from_every_other() -> None:
    """GEPA tells predictors apart by their fields and instructions."""
    predictors = build(ScriptedModel(answering())).predictors()
    inputs = [tuple(predictor.signature.input_fields) for predictor in predictors]
    assert len(set(inputs)) == len(AGENTS)
    outputs = {name: list(p.signature.output_fields) for name, p in zip(AGENTS, predictors, strict=True)}
    assert outputs == {
        "planner": ["research_steps", "expert_steps"],
        "critic_planner": ["decision", "feedback"],
        "researcher": ["tool_calls", "result"],
        "critic_researcher": ["decision", "feedback"],
        "expert": ["tool_calls", "expert_answer", "reasoning_trace"],
        "critic_expert": ["decision", "feedback"],
        "finalizer": ["final_answer", "final_reasoning_trace"],
    }


def test_the_saved_state_fits_into_json_and_brings_the_texts_back() -> None:
    program = instructed(build(ScriptedModel(answering())), "Alpha")
    state = json.loads(json.dumps(program.dump_state()))
    assert set(state) == set(AGENTS)
    for name in AGENTS:
        assert state[name]["signature"]["instructions"] == f"You are Alpha, the {name}."


def test_instructions_and_demos_of_a_saved_state_load_into_another_program() -> None:
    state = instructed(build(ScriptedModel(answering())), "Alpha").dump_state()
    model = ScriptedModel(answering())
    program = build(model)
    for name, predictor in program.named_predictors():
        predictor.load_state({**state[name], "lm": None})
        predictor.lm = build(model).planner.lm
    assert program(question="How many?").final_answer == "42"
    assert all(f"You are Alpha, the {agent}." in system_text(request) for agent, request in model.requests)


def test_a_prompt_set_reaches_the_wire_character_for_character() -> None:
    texts = {name: f"# {name}\n\n- Keep {{braces}} and $signs.\n  - Indented ü." for name in AGENTS}
    model = ScriptedModel(answering(planner=plan("one")))
    program = build(model)
    apply_prompt_set(program, PromptSet("mine", "gaia", texts, Path("mine")))
    program(question="How many?")
    assert {agent for agent, _ in model.requests} == set(AGENTS)
    for agent, request in model.requests:
        lines = [line.strip() for line in system_text(request).splitlines()]
        assert [line for line in texts[agent].splitlines() if line.strip() not in lines] == []


def test_a_question_with_a_lone_surrogate_is_asked_all_the_same() -> None:
    model = ScriptedModel(answering())
    assert build(model)(question="How many \ud83d?").final_answer == "42"


def test_escaped_surrogates_in_a_plan_do_not_end_the_question() -> None:
    text = '[[ ## research_steps ## ]]\n["find \\ud83d"]\n\n[[ ## expert_steps ## ]]\n["add"]\n'
    model = ScriptedModel(answering(planner=text))
    assert build(model)(question="How many?").final_answer == "42"


@pytest.mark.parametrize(("file", "name"), [("towns.csv", "towns.csv"), (None, None)])
def test_the_graph_is_asked_with_the_programs_own_predictors_and_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str | None, name: str | None
) -> None:
    limits: dict[Worker, int] = {"planner": 2, "researcher": 4, "expert": 6}
    program = build(ScriptedModel(answering()), limits, max_research_steps=3, on_retry_exhausted="best_effort")
    graph, adapters = AsyncMock(), list[Any]()
    final = {"final_answer": "42", "final_reasoning_trace": "so"}

    async def ainvoke(*args: Any, **settings: Any) -> dict[str, str]:
        adapters.append(dspy.settings.adapter)
        return final

    graph.ainvoke.side_effect = ainvoke
    monkeypatch.setattr("mas.systems.gaia.program.workflow", lambda: graph)
    assert asyncio.run(program.answer("How many?", tmp_path / file if file else None, "thread-7")) == final
    asked = {"question": "How many?", "file": name, "correlation_id": "thread-7"}
    predictors = dict(program.named_predictors())
    context = GraphContext(predictors, program.toolboxes, program.retry_limits, 3, "best_effort")
    limit = recursion_limit(limits, 3)
    graph.ainvoke.assert_awaited_once_with(asked, context=context, config={"recursion_limit": limit})
    (adapter,) = adapters
    assert isinstance(adapter, ChatAdapter) and adapter.use_native_function_calling is True
    assert program.retry_limits == limits and list(predictors) == list(AGENTS)
