"""A user's DSPy program as the student of an optimizer: several inputs, equal signatures, unreadable replies."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, TextPart
from dspy.teleprompt.gepa.gepa_utils import DspyAdapter

from eval.benchmarks.dataset import Sample
from eval.execution.budget import Budget, BudgetSettings
from eval.execution.executors.local import LocalAnswering
from eval.execution.runner import SampleRunner
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from eval.scorers.text import ExactScorer
from mas.runtime.sample_context import SampleContext
from mas.system import Resources
from mas.systems.external.system import DspySystem
from optimize.search.dspy_compat import run_isolated, to_examples
from optimize.search.student import Objective, Student
from optimize.search.trials import UNREADABLE, Trials
from tests.mas.systems.external.user_code import AnyonesModel, module
from tests.scripted_model import said

SOURCE = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.first = dspy.Predict("text, hint -> result")
        self.second = dspy.Predict("text, hint -> result")
    def forward(self, title, body):
        found = self.first(text=title, hint=body).result
        return self.second(text=found, hint=body)
"""
SAMPLES = [
    Sample(f"q{n}", f"title: t{n}\\nbody: b{n}", target=f"wanted {n}", inputs={"title": f"t{n}", "body": f"b{n}"})
    for n in range(4)
]


class Echo(AnyonesModel):
    """It repeats the text, unless that is unreadable."""

    def __init__(self) -> None:
        super().__init__()
        self.script = lambda agent, request: self.answer(request)

    @staticmethod
    def answer(request: Request) -> dict[str, Any]:
        text = said(request)[-1][1].partition("[[ ## text ## ]]\n")[2].partition("\n\n")[0]
        return {"result": f"{text}!"}


class Unreadable(Echo):
    def respond(self, request: Request) -> Response:
        return replace(super().respond(request), message=Message.assistant([TextPart("no field at all")]))


def build_student(tmp_path: Path, model: Echo) -> Student:
    system = DspySystem(f"{module(tmp_path, SOURCE)}:Program", data_inputs=["title", "body"], answer_field="result")
    system.check()
    program = system.build(model, None, Resources())  # type: ignore[arg-type]
    runner = SampleRunner("r", program, ExactScorer(), deadline_seconds=60, redact=str)
    ledger = Budget(BudgetSettings(metric_calls=50))
    prompts, stop = system.derive_prompts(), StopController()
    samples = {each.id: each for each in SAMPLES}
    session = SimpleNamespace(
        open_answering=lambda: LocalAnswering(runner, prompts), open_context=SampleContext, budget=ledger,
        store=RunStore(tmp_path / "run.db"), info=RunInfo(run_id="r"), stop=stop, answers=None,
        config=SimpleNamespace(run=SimpleNamespace(concurrency=2)),
    )  # fmt: skip
    trials = Trials(cast(Any, session), samples)
    return Student(program, prompts, trials)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_of_two_predictors_with_one_signature_learns_from_its_own_calls(tmp_path: Path) -> None:
    student = build_student(tmp_path, Echo())
    first, second = (each.signature for _, each in student.named_predictors())
    shown = [dspy.JSONAdapter().format(each, [], {}) for each in (first, second)]
    assert not first.equals(second) and shown[0] == shown[1] and "first" not in str(shown)
    objective = Objective(SAMPLES)

    def give(predictor_output: Any, predictor_inputs: Any, module_inputs: Any, module_outputs: Any,
             captured_trace: Any) -> Any:  # fmt: skip
        return dspy.Prediction(score=0.0, feedback="f")

    feedback_map = dict.fromkeys(("first", "second"), give)
    adapter = DspyAdapter(student, objective, feedback_map)
    texts = {name: each.signature.instructions for name, each in student.named_predictors()}
    found: list[Any] = []

    def evaluate() -> None:
        batch = adapter.evaluate(to_examples(["q0", "q1"]), texts, capture_traces=True)
        found.append(adapter.make_reflective_dataset(texts, batch, ["first", "second"]))

    run_isolated(evaluate)
    texts_shown = {name: [each["Inputs"]["text"] for each in examples] for name, examples in found[0].items()}
    assert texts_shown == {"first": ["t0", "t1"], "second": ["t0!", "t1!"]}
    student.trials.close()


def test_a_reply_that_cannot_be_read_is_a_step_with_all_inputs_of_the_predictor(tmp_path: Path) -> None:
    student = build_student(tmp_path, Unreadable())
    trial = student.trial("q2")
    assert trial.record.error_class == "malformed" and trial.record.error_component == "first"
    ((agent, inputs, outputs),) = trial.steps
    assert (agent, dict(inputs), outputs[UNREADABLE]) == ("first", {"text": "t2", "hint": "b2"}, "no field at all")
    told = Objective(SAMPLES)(dspy.Example(sample_id="q2"), dspy.Prediction(trial=trial), None, "first")
    assert "It first went wrong with this agent." in told.feedback  # type: ignore[union-attr]
    student.trials.close()
