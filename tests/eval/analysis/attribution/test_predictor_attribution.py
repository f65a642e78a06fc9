"""A fault planted in one predictor of a user's program is found by what its predictors gave, over the real DSPy."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request

from eval.analysis.attribution.agent_attribution import attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.predictor_attribution import attribute_to_predictor
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.benchmarks.dataset import Sample
from eval.execution.runner import SampleRunner
from eval.runs.record import Record
from eval.scorers.labels import find_labels
from eval.scorers.score import Score, Scorer
from eval.scorers.text import ExactScorer
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleKey
from mas.system import Resources
from mas.systems.external.system import DspySystem
from optimize.feedback.feedback import Expectation, build_feedback
from optimize.search.student import Objective
from tests.mas.systems.external.user_code import AnyonesModel, module
from tests.optimize.search.test_objective import Trial, quoted
from tests.optimize.simulated_runs import record as a_record
from tests.scripted_model import said

N_WRONG, N_RIGHT = 50, 20
Fields = Mapping[str, str]
Reply = Callable[[int, str, Fields, bool], str]  # question, output field, inputs, faulty → the field
_SECTION = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nRespond with|\Z)", re.DOTALL)


class WithAdvice(Scorer):
    """It explains, and quotes the target now and then."""

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        right = answer == target
        return Score(float(right), "right" if right else f"Compare the units. The answer is {target}.")


class PlantedModel(AnyonesModel):
    """Replies by the inputs of the call; `faulty` names the first output field of the predictor that fails."""

    def __init__(self, reply: Reply, faulty: str, wrong: range) -> None:
        super().__init__()
        self.script = lambda agent, request: self._answer(request, reply, faulty, wrong)

    @staticmethod
    def _answer(request: Request, reply: Reply, faulty: str, wrong: range) -> dict[str, Any]:
        inputs = dict(_SECTION.findall(said(request)[-1][1]))
        number = int(re.findall(r"case (\d+)", str(inputs))[0])
        return {name: reply(number, name, inputs, name == faulty and number in wrong) for name in FAULTY}


TOWNS = [f"{a}{b}" for a in ("Pavel", "Figol", "Bovel", "Korth", "Munda", "Selva", "Tarro") for b in
         ("del", "ton", "heim", "burg", "stad", "mont", "wick", "fort", "dale", "gard")]  # fmt: skip


def extracting(number: int, name: str, inputs: Fields, faulty: bool) -> str:
    town, other = TOWNS[number], TOWNS[number - 7]
    if name == "fact":
        lost = ("Nothing was found.", f"case {number} stands in {other}.", "It is a town, see the text.")
        return lost[number % 3] if faulty else f"case {number} stands in {town}."
    if faulty:
        return (other, "I do not know", f"the town {other}")[number % 3]
    found = re.search(r"stands in (\w+)", inputs.get("fact", ""))
    return found[1] if found else "unknown"


def make_sample(number: int) -> Sample:
    context = f"{TOWNS[number - 7]} is large. case {number} stands in {TOWNS[number]}."
    question = f"Where does case {number} stand?"
    inputs = {"context": context, "question": question}
    return Sample(f"q{number}", f"case {number}", target=TOWNS[number], inputs=inputs)


SOURCE = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.first = dspy.{kind}("context, question -> fact")
        self.second = dspy.{kind}("fact, question -> answer")
    def forward(self, context, question):
        fact = self.first(context=context, question=question).fact
        return self.second(fact=fact, question=question)
"""
FAULTY = ("fact", "answer")  # output fields


def run(faulty: int, folder: Path, kind: str = "Predict") -> tuple[list[Sample], list[Record]]:
    samples = [make_sample(number) for number in range(N_WRONG + N_RIGHT)]
    target = f"{module(folder, SOURCE.format(kind=kind))}:Program"
    system = DspySystem(target, data_inputs=["context", "question"], answer_field="answer")
    system.check()
    model = PlantedModel(extracting, FAULTY[faulty], range(N_WRONG))
    program = system.build(model, None, Resources())  # type: ignore[arg-type]
    runner = SampleRunner("r", program, WithAdvice(), deadline_seconds=60, redact=str)
    return samples, [run_blocking(runner.run_sample(each, SampleKey(each.id))) for each in samples]


@pytest.mark.parametrize("faulty", [0, 1], ids=["first", "second"])
def test_a_planted_fault_is_attributed_to_its_predictor(
    faulty: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = ("Predict", "ChainOfThought")[faulty]
    samples, records = run(faulty, tmp_path, kind)
    agents = [f"{each}{'.predict' if kind == 'ChainOfThought' else ''}" for each in ("first", "second")]
    wrong = [record for record in records if record.score == 0.0]
    assert len(wrong) == N_WRONG and sum(record.correct for record in records) == N_RIGHT
    labels = find_labels(samples)
    objective = Objective(samples, labels=labels)
    predictions = {each.sample_id: dspy.Prediction(final_answer=each.answer, trial=Trial(each)) for each in records}
    for record in records:
        objective(dspy.Example(sample_id=record.sample_id), predictions[record.sample_id])
    found = 0
    for record in wrong:
        told = {
            agent: str(
                objective(dspy.Example(sample_id=record.sample_id), predictions[record.sample_id], None, agent).feedback  # type: ignore[union-attr]
            )
            for agent in agents
        }
        found += (
            "It first went wrong with this agent." in told[agents[faulty]]
            and f"another agent, {agents[faulty]}." in told[agents[1 - faulty]]
        )
        for text in told.values():
            assert labels.find(record.target) or quoted(record.target or "", text) is None
            assert "part was fine" not in text
    assert found >= 0.9 * N_WRONG, found
    assert objective.first_error is None


def test_the_feedback_has_the_scorers_explanation_unless_it_quotes_a_unique_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, records = run(1, tmp_path)
    record = records[0]
    expectation = Expectation.of(record.target or "", record.question)
    assert "The scorer explains" not in build_feedback("first", record, expectation)
    record.explanation = "The units are wrong."
    for agent in ("first", "second"):
        assert "The scorer explains: The units are wrong." in build_feedback(agent, record, expectation)


OWN = {"inputs": {"question": "Which?"}}


def own(target: str, answer: str, **steps: dict[str, Any]) -> Record:
    """A record of a user's program; each step's outputs by the name of its predictor."""
    scored = ExactScorer()("?", answer, target)
    spans = [
        {"id": at, "kind": "agent", "name": name, "inputs": {"q": str(at)}, "outputs": outputs, "events": []}
        for at, (name, outputs) in enumerate(steps.items())
    ]
    return Record("r", "q", 1, 1, "t", "Which?", None, None, target, answer, score=scored.value, trajectory=spans,
                  state=OWN)  # fmt: skip


def blamed(record: Record) -> str | None:
    steps, matcher = AgentSteps.of(record), Expectation.of(record.target or "", record.question).matcher
    return attribute_failure(record, steps, matcher).agent


def test_a_failure_belongs_to_the_predictor_in_which_or_after_which_it_happened() -> None:
    def failed(kind: str, component: str) -> Record:
        record = own("Figolth", "", first={"a": "x"}, second={"b": "not json"})
        record.score, record.error, record.error_class, record.error_component = None, "broken", kind, component
        return record

    assert blamed(failed("malformed", "first")) == "first"
    assert blamed(failed("internal", "system")) == "second"
    assert blamed(failed("infrastructure", "system")) is None


def test_a_repeated_result_tells() -> None:
    record = own("delivery", "I think it is Bovelck", read={"place": "Bovelck"}, say={"y": "I think it is Bovelck"})
    assert blamed(record) == "read"


# Each rule on a small chain of predictors: what they replied, and what they had been asked.


def test_without_a_reply_nobody_is_responsible() -> None:
    made = a_record("Korthburg", "Pavelton", [])
    assert attribute_to_predictor(made, AgentSteps.of(made), TargetMatcher("Korthburg")) is None
