"""A fault planted in one predictor of a user's program is found by what its predictors gave, over the real DSPy."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request

from eval.analysis.attribution.agent_attribution import attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.predictor_attribution import RightAnswers, attribute_to_predictor
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.benchmarks.dataset import Sample
from eval.execution.runner import SampleRunner
from eval.runs.record import Record
from eval.scorers.exact import ExactScorer
from eval.scorers.labels import find_labels
from eval.scorers.score import Score, Scorer
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
        wanted = ("fact", "answer", "summary", "label", "expression", "result", "topic", "urgency")
        return {name: reply(number, name, inputs, name == faulty and number in wrong) for name in wanted}


@dataclass(frozen=True)
class Design:
    """A program of two predictors, its questions, and what right and wrong replies of it are."""

    signatures: tuple[str, str]
    code: str
    sample: Callable[[int], Sample]
    reply: Reply
    faulty: tuple[str, str]  # output fields


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


def classifying(number: int, name: str, inputs: Fields, faulty: bool) -> str:
    labels = ["billing", "delivery", "account"]
    right = (number + faulty) % 3
    texts = ["an invoice that is too high", "a parcel that is late", "a password that is lost"]
    if name == "summary":
        return f"In case {number} the customer writes of {texts[right]}, number {number * 7}."
    shown = next((at for at, text in enumerate(texts) if text in inputs.get("summary", "")), 0)
    return labels[(shown + faulty) % 3]


def calculating(number: int, name: str, inputs: Fields, faulty: bool) -> str:
    if name == "expression":
        return f"{number + 11} * {number + 3} {'+' if faulty else '-'} 5"
    found = re.search(r"(\d+) \* (\d+) ([-+]) 5", inputs.get("expression", ""))
    if found is None:
        return ""
    value = int(found[1]) * int(found[2]) + (5 if found[3] == "+" else -5)
    return str(value + 10 * faulty)


def routing(number: int, name: str, inputs: Fields, faulty: bool) -> str:
    if name == "topic":
        return ("fire", "question")[(number + faulty) % 2]
    high = "fire" in inputs.get("topic", "")
    return ("low", "high")[high ^ faulty]


DESIGNS = {
    "unique answers": Design(
        ("context, question -> fact", "fact, question -> answer"),
        "fact = self.first(context=context, question=question).fact\n"
        "        return self.second(fact=fact, question=question)",
        lambda number: Sample(
            f"q{number}", f"case {number}", target=TOWNS[number],
            inputs={
                "context": f"{TOWNS[number - 7]} is large. case {number} stands in {TOWNS[number]}.",
                "question": f"Where does case {number} stand?",
            },
        ),
        extracting,
        ("fact", "answer"),
    ),
    "labels by a summary": Design(
        ("context, question -> summary", "summary, question -> label"),
        "summary = self.first(context=context, question=question).summary\n"
        "        return self.second(summary=summary, question=question)",
        lambda number: Sample(
            f"q{number}", f"case {number}", target=["billing", "delivery", "account"][number % 3],
            inputs={"context": f"case {number}", "question": f"Whose is case {number}?"},
        ),
        classifying,
        ("summary", "label"),
    ),
    "numbers by an expression": Design(
        ("context, question -> expression", "expression, question -> result"),
        "expression = self.first(context=context, question=question).expression\n"
        "        return self.second(expression=expression, question=question)",
        lambda number: Sample(
            f"q{number}", f"case {number}", target=str((number + 11) * (number + 3) - 5),
            inputs={"context": f"case {number}", "question": f"How many in case {number}?"},
        ),
        calculating,
        ("expression", "result"),
    ),
    "decisions by a topic": Design(
        ("context, question -> topic", "topic, question -> urgency"),
        "topic = self.first(context=context, question=question).topic\n"
        "        return self.second(topic=topic, question=question)",
        lambda number: Sample(
            f"q{number}", f"case {number}", target=("high", "low")[number % 2],
            inputs={"context": f"case {number}", "question": f"How urgent is case {number}?"},
        ),
        routing,
        ("topic", "urgency"),
    ),
}  # fmt: skip
SOURCE = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.first = dspy.{kind}("{0}")
        self.second = dspy.{kind}("{1}")
    def forward(self, context, question):
        {code}
"""


def run(design: Design, faulty: int, folder: Path, kind: str = "Predict") -> tuple[list[Sample], list[Record]]:
    samples = [design.sample(number) for number in range(N_WRONG + N_RIGHT)]
    target = f"{module(folder, SOURCE.format(*design.signatures, code=design.code, kind=kind))}:Program"
    system = DspySystem(target, data_inputs=["context", "question"], answer_field=design.faulty[1])
    system.check()
    model = PlantedModel(design.reply, design.faulty[faulty], range(N_WRONG))
    program = system.build(model, None, Resources())  # type: ignore[arg-type]
    runner = SampleRunner("r", program, WithAdvice(), deadline_seconds=60, redact=str)
    return samples, [run_blocking(runner.run_sample(each, SampleKey(each.id))) for each in samples]


@pytest.mark.parametrize("faulty", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_planted_fault_is_attributed_to_its_predictor(
    name: str, faulty: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = ("Predict", "ChainOfThought")[faulty]
    samples, records = run(DESIGNS[name], faulty, tmp_path, kind)
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
    _, records = run(DESIGNS["unique answers"], 1, tmp_path)
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


def blamed(record: Record, known: RightAnswers | None = None) -> str | None:
    steps, matcher = AgentSteps.of(record), Expectation.of(record.target or "", record.question).matcher
    return attribute_failure(record, steps, matcher, known).agent


def test_a_failure_belongs_to_the_predictor_in_which_or_after_which_it_happened() -> None:
    def failed(kind: str, component: str) -> Record:
        record = own("Figolth", "", first={"a": "x"}, second={"b": "not json"})
        record.score, record.error, record.error_class, record.error_component = None, "broken", kind, component
        return record

    assert blamed(failed("malformed", "first")) == "first"
    assert blamed(failed("internal", "system")) == "second"
    assert blamed(failed("infrastructure", "system")) is None


def test_without_right_answers_a_repeated_result_tells() -> None:
    record = own("delivery", "I think it is Bovelck", read={"place": "Bovelck"}, say={"y": "I think it is Bovelck"})
    assert blamed(record) == "read"


# Each rule on a small chain of predictors: what they replied, and what they had been asked.


def test_without_a_reply_nobody_is_responsible() -> None:
    made = a_record("Korthburg", "Pavelton", [])
    assert attribute_to_predictor(made, AgentSteps.of(made), TargetMatcher("Korthburg")) is None
