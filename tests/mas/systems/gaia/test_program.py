"""The program as a `dspy.Module`: both ways of calling it, threads, copies, `dspy.Evaluate`, saved state."""

import asyncio
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest

from mas.runtime.event_loop import run_blocking
from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.agents import AGENTS, initial_state
from tests.mas.systems.gaia.building import build, csv_file, without_times
from tests.patience import PATIENCE_SECONDS
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

    def ask(number: int) -> str:
        together.wait()
        return str(copies["Alpha" if number % 2 else "Beta"](question=f"What is number {number}?").final_answer)

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(ask, range(THREADS))) == [str(number) for number in range(THREADS)]
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
        with pytest.raises(ValueError, match="No question provided to input interface"):
            program(question=question)
    assert model.agents_asked.count("planner") == 1


def test_a_saved_state_fits_into_json_and_its_instructions_load_into_another_program() -> None:
    state = json.loads(json.dumps(instructed(build(ScriptedModel(answering())), "Alpha").dump_state()))
    assert set(state) == set(AGENTS)
    model = ScriptedModel(answering())
    program = build(model)
    for name, predictor in program.named_predictors():
        predictor.load_state({**state[name], "lm": None})
        predictor.lm = build(model).planner.lm
    assert program(question="How many?").final_answer == "42"
    assert all(f"You are Alpha, the {agent}." in system_text(request) for agent, request in model.requests)
