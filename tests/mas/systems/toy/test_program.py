"""The toy program: what its three agents say to each other, what it leaves behind, and both ways of calling it."""

import asyncio
import copy
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import AsyncMock

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from eval.cli.paths import PROJECT_ROOT
from mas.agents.spec import ModelSettings
from mas.prompt_sets.prompt_set import read_prompt_set
from mas.runtime.errors import UserError
from mas.runtime.trace import Trace, record_trace
from mas.systems.toy.program import format_problem_and_steps, format_result
from mas.systems.toy.system import AGENTS, ToySystem
from tests.mas.systems.toy.toy_model import FIELDS, STRAIGHT, ToyModel, build
from tests.scripted_model import UNREADABLE, all_text, said, system_text

QUESTION = "A rope costs 3 crowns. What do 4 ropes cost, less 2?"
SOLVE_MESSAGE = f"PROBLEM:\n{QUESTION}\n\nSTEPS:\n1. Multiply 3 by 4.\n2. Take 2 away."
FINALIZE_MESSAGE = f"PROBLEM:\n{QUESTION}\n\nWORKING:\n3 * 4 = 12\n12 - 2 = 10\n\nRESULT:\n10 crowns"


def test_each_agent_is_asked_once_in_order_with_its_prompt() -> None:
    model = ToyModel()
    build(model)(question=QUESTION)
    assert model.agents_asked == list(AGENTS)
    texts = read_prompt_set("toy_baseline", AGENTS, "toy", PROJECT_ROOT).texts
    for agent, request in model.requests:
        prompt = re.sub(r"\s+", " ", texts[agent])
        assert prompt in re.sub(r"\s+", " ", system_text(request))


def test_the_messages_have_their_sections() -> None:
    model = ToyModel()
    build(model)(question=QUESTION)
    contents = {"plan": QUESTION, "solve": SOLVE_MESSAGE, "finalize": FINALIZE_MESSAGE}
    for agent, request in model.requests:
        ((role, text),) = said(request)
        assert role == "user"
        assert text.startswith(f"[[ ## {FIELDS[agent]} ## ]]\n{contents[agent]}\n\nRespond with")


def test_a_section_without_text_says_so() -> None:
    assert format_problem_and_steps("How many?", []) == "PROBLEM:\nHow many?\n\nSTEPS:\n(none)"
    assert format_result("How many?", " ", "") == "PROBLEM:\nHow many?\n\nWORKING:\n(none)\n\nRESULT:\n(none)"


def test_the_prediction_has_answer_trace_and_state() -> None:
    prediction = build(ToyModel())(question=QUESTION)
    assert set(prediction.keys()) == {"final_answer", "final_reasoning_trace", "state"}
    expected = {name: value for reply in STRAIGHT.values() for name, value in reply.items()}
    state = dict(prediction.state)
    assert re.fullmatch("[0-9a-f]{32}", state.pop("correlation_id"))
    assert state == {"question": QUESTION, **expected}
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("10", "Twelve less two.")


def test_both_ways_of_calling_it_do_the_same() -> None:
    models = [ToyModel(), ToyModel()]
    synchronous = build(models[0])(question=QUESTION)
    awaited = asyncio.run(build(models[1]).acall(question=QUESTION))
    assert models[0].requests == models[1].requests
    assert synchronous.final_answer == awaited.final_answer


def test_every_agent_has_a_span_with_what_went_in_and_came_out() -> None:
    trace = Trace("thread-1")
    with record_trace(trace):
        prediction = asyncio.run(build(ToyModel()).acall(question=QUESTION))
    agents = [span for span in trace.spans if span.kind == "agent"]
    assert [span.name for span in agents] == list(AGENTS)
    assert [span.inputs["request"] for span in agents] == [QUESTION, SOLVE_MESSAGE, FINALIZE_MESSAGE]
    assert [span.outputs for span in agents] == [STRAIGHT[agent] for agent in AGENTS]
    calls = [span for span in trace.spans if span.kind == "lm"]
    assert [call.parent for call in calls] == [span.id for span in agents]
    assert trace.state == prediction.state
    assert trace.state["correlation_id"] == "thread-1"


def test_an_unreadable_reply_ends_the_question_where_it_came() -> None:
    trace = Trace("thread-1")
    model = ToyModel(solve=UNREADABLE)
    with record_trace(trace), pytest.raises(AdapterParseError):
        asyncio.run(build(model).acall(question=QUESTION))
    assert "finalize" not in model.agents_asked
    failed = [span.name for span in trace.spans if span.kind == "agent" and span.error]
    assert failed == ["solve"]
    assert trace.state["steps"] == ["Multiply 3 by 4.", "Take 2 away."]
    assert trace.state["result"] == ""


def test_an_attachment_is_refused_rather_than_ignored() -> None:
    model = ToyModel()
    with pytest.raises(UserError, match=r"given towns\.csv; use data=toy"):
        build(model)(question=QUESTION, file="/somewhere/towns.csv")
    assert model.requests == []


def test_an_empty_question_is_refused() -> None:
    with pytest.raises(ValueError, match="no question"):
        build(ToyModel())(question="  ")


def test_questions_in_threads_and_a_copy_keep_apart() -> None:
    def finalize(request: Any) -> Any:
        return {"final_answer": re.findall(r"number (\d+)", all_text(request))[0], "final_reasoning_trace": "so"}

    program = copy.deepcopy(build(ToyModel(finalize=finalize)))
    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda number: program(question=f"What is number {number}?").final_answer, range(16))
        assert list(answers) == [str(number) for number in range(16)]


def test_it_runs_inside_dspy_evaluate() -> None:
    examples = [dspy.Example(question=QUESTION, answer=str(10 + i % 2)).with_inputs("question") for i in range(4)]

    def same(example: Any, prediction: Any, trace: Any = None) -> bool:
        return bool(example.answer == prediction.final_answer)

    evaluate = dspy.Evaluate(devset=examples, metric=same, num_threads=2, display_progress=False, max_errors=1)
    assert evaluate(build(ToyModel())).score == 50.0


def test_no_two_agents_share_a_field_or_a_prompt() -> None:
    predictors = dict(build(ToyModel()).named_predictors())
    assert list(predictors) == list(AGENTS)
    fields = [name for predictor in predictors.values() for name in predictor.signature.fields]
    assert len(fields) == len(set(fields)) == 8
    assert len({predictor.signature.instructions for predictor in predictors.values()}) == 3


@pytest.mark.parametrize("agent", AGENTS)
def test_a_baseline_prompt_is_short_and_leaves_the_format_to_the_adapter(agent: str) -> None:
    text = read_prompt_set("toy_baseline", AGENTS, "toy", PROJECT_ROOT).texts[agent]
    assert 60 <= len(text.split()) <= 100
    assert not re.search(r"JSON|\[\[|final_answer|problem_and_steps", text)


def test_each_agent_may_have_its_own_model_and_temperature() -> None:
    settings = {"solve": ModelSettings(model="strong", temperature=0.9)}
    lms = {name: predictor.lm for name, predictor in build(ToyModel(), agents=settings).named_predictors()}
    assert [lm.model for lm in lms.values()] == ["scripted/scripted", "scripted/strong", "scripted/scripted"]
    assert [lm.kwargs["temperature"] for lm in lms.values()] == [None, 0.9, None]


def test_an_unknown_agent_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"names planner; the toy system's agents are finalize, plan, solve\.$"):
        ToySystem(agents={"planner": ModelSettings()}).check()


def test_the_settings_are_checked_without_loading_anything_heavy() -> None:
    code = (
        "import sys\nfrom mas.systems.toy.system import ToySystem\nfrom eval.benchmarks.toy_set import ToyDataset\n"
        "ToySystem().check()\nToyDataset().load('val')\n"
        "print([name for name in ('dspy', 'langgraph', 'pandas', 'openpyxl', 'pint') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


EMPTY = {
    "question": QUESTION,
    "correlation_id": "thread-1",
    "steps": [],
    "working": "",
    "result": "",
    "final_answer": "",
    "final_reasoning_trace": "",
}


def test_what_is_known_so_far_is_kept_after_each_step() -> None:
    states: list[dict[str, Any]] = []
    answers: list[str | None] = []

    def note(span: Any) -> None:
        if span.kind == "agent" and span.end_seconds is None:
            states.append(dict(trace.state))
            answers.append(trace.answer)

    trace = Trace("thread-1", observer=note)
    with record_trace(trace):
        asyncio.run(build(ToyModel()).acall(question=QUESTION))
    planned = {**EMPTY, "steps": STRAIGHT["plan"]["steps"]}
    assert states == [EMPTY, planned, {**planned, **STRAIGHT["solve"]}]
    assert answers == [None] * 3
    assert trace.state == {**planned, **STRAIGHT["solve"], **STRAIGHT["finalize"]}
    assert trace.answer == "10"


def test_outputs_that_an_agent_left_out_are_empty_texts() -> None:
    program = build(ToyModel())
    replies = {
        "plan": dspy.Prediction(steps=("a", "b")),
        "solve": dspy.Prediction(working=None, result=None),
        "finalize": dspy.Prediction(final_answer=None, final_reasoning_trace=None),
    }
    asked = {agent: AsyncMock(return_value=reply) for agent, reply in replies.items()}
    for agent, ask in asked.items():
        getattr(program, agent).acall = ask
    trace = Trace("thread-1")
    with record_trace(trace):
        state = asyncio.run(program.acall(question=QUESTION)).state
    assert state == {**EMPTY, "steps": ["a", "b"]}
    assert trace.answer == ""
    asked["plan"].assert_awaited_once_with(problem=QUESTION)
    asked["solve"].assert_awaited_once_with(problem_and_steps=format_problem_and_steps(QUESTION, ["a", "b"]))
    asked["finalize"].assert_awaited_once_with(result_to_finalize=format_result(QUESTION, "", ""))


def test_sections_have_no_blanks_around_their_text_and_steps_their_numbers() -> None:
    assert format_problem_and_steps(" P \n", ["a", "b"]) == "PROBLEM:\nP\n\nSTEPS:\n1. a\n2. b"
    assert format_result("P", " W\n", "R ") == "PROBLEM:\nP\n\nWORKING:\nW\n\nRESULT:\nR"
