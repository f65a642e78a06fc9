"""Metrics that were written for `dspy.GEPA` score here as they are, and give their feedback."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eval.execution.scoring import Scoring, describe_answered
from eval.runs.record import Record
from eval.scorers.function import FunctionScorer
from eval.scorers.score import AnsweredSample, Score, ScorerError
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking

METRICS = """
import dspy

seen = []


def full(gold, pred, trace=None, pred_name=None, pred_trace=None):
    seen.append((gold, pred, trace, pred_name, pred_trace))
    score = float(gold.label == pred.label and pred.words == ["late"])
    if pred_name is None:
        return dspy.Prediction(score=score, feedback=f"The label is {gold.label}.")
    return dspy.Prediction(score=score, feedback=f"{pred_name}: read {gold.title} and {list(gold.inputs())}.")


def plain(example, prediction, trace=None):
    return example.label == prediction.label


def short(example, pred):
    return 0.5


def only_score(gold, pred, trace, pred_name, pred_trace):
    return 0.25


async def waits(gold, pred, trace=None, pred_name=None, pred_trace=None):
    return {"score": 1, "feedback": "async " + str(pred_name)} if pred_name else dspy.Prediction(score=1)


def typo(gold, pred, trace=None):
    return gold.lable == pred.label


def tagged(gold, pred, trace=None):
    return gold.source == "mail" and gold.title == "Late"


def typed(gold, pred, trace=None):
    return gold.label == pred.label and (gold.urgent is pred.urgent) and set(gold.words) == set(pred.words)


def nested(gold, pred, trace=None):
    return pred.place.city == "Paris" and pred.stops[0].name == "Lyon" and not hasattr(pred.place, "zip")


def silent(gold, pred, trace=None):
    return dspy.Prediction(feedback="no score")


def percent(gold, pred, trace=None):
    return 100


def ours(question, answer, target):
    return answer == target


def neither(first):
    return 1


class Judge(dspy.Module):
    def forward(self, example, pred, trace=None):
        return 1.0
"""
SAMPLE = AnsweredSample(
    "title: Late\nbody: b",
    "shipping",
    "shipping",
    {"title": "Late", "body": "b"},
    {"label": "shipping", "words": ["late"]},
)
Make = Callable[[str], FunctionScorer]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.chdir(tmp_path)
    name = f"metrics_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(METRICS)
    yield lambda function: FunctionScorer(f"{name}:{function}", "label")
    sys.modules.pop(name, None)


def score(scorer: FunctionScorer, sample: AnsweredSample = SAMPLE) -> Score:
    return run_blocking(scorer.score_sample(sample))


def test_a_metric_of_dspy_scores_as_it_is_written(make: Make) -> None:
    assert score(make("full")) == Score(1.0, "The label is shipping.")
    assert [score(make(name)).value for name in ("plain", "short", "only_score", "waits")] == [1.0, 0.5, 0.25, 1.0]
    gold, pred, *rest = sys.modules[make("full").target.partition(":")[0]].seen[0]
    assert dict(gold.inputs()) == {"title": "Late", "body": "b"} and dict(gold.labels()) == {"label": "shipping"}
    assert (dict(pred), rest) == ({"label": "shipping", "words": ["late"]}, [None, None, None])
    assert score(make("ours")).value == 1.0


@pytest.mark.parametrize(
    ("output", "target", "gold"),
    [(3, "2", 2), (3, "many", "many"), (2.5, "2", 2.0), ("3", "2", "2"), (None, "2", "2"), ({"a": 1}, "2", "2")],
)
def test_a_target_has_the_type_of_the_output_unless_it_does_not_fit(
    make: Make, output: object, target: str, gold: object
) -> None:
    score(make("full"), AnsweredSample("?", str(output), target, {"title": "Late"}, {"label": output}))
    found = sys.modules[make("full").target.partition(":")[0]].seen[0][0].label
    assert (found, type(found)) == (gold, type(gold))


def test_its_feedback_is_for_the_predictor_that_is_named(make: Make) -> None:
    full = make("full")
    assert full.give_feedback(SAMPLE, "sort", [1], [2]) == "sort: read Late and ['title', 'body']."
    assert sys.modules[full.target.partition(":")[0]].seen[0][2:] == ([1], "sort", [2])
    assert make("waits").give_feedback(SAMPLE, "sort", [], []) == "async sort"
    assert [make(name).give_feedback(SAMPLE, "sort", [], []) for name in ("plain", "only_score", "ours")] == [None] * 3
    assert [make(name).reads_outputs() for name in ("full", "short", "ours")] == [True, True, False]


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        ("typo", AttributeError, "lable"),
        ("silent", ScorerError, "returned nothing"),
        ("percent", ScorerError, "returned 100.0; expected 0 to 1"),
        ("neither", UserError, r"question, answer, target, or those of a DSPy metric: gold, pred, trace=None"),
        ("Judge", UserError, r"is a class: give a function, or an object of the class, such as metric = Judge\(\)"),
    ],
)
def test_a_mistake_in_a_metric_is_no_score(make: Make, function: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        score(make(function))


def test_a_record_is_scored_by_its_named_outputs_also_later(make: Make) -> None:
    state = {"inputs": {"title": "Late"}, "outputs": {"label": "shipping", "words": ["late"]}}
    record = Record("r", "s", 1, 1, "t", "Late", None, None, "shipping", answer="other", state=state)
    run_blocking(Scoring(make("full"), 60, redact=str).score(record))
    assert (record.score, record.explanation) == (1.0, "The label is shipping.")
    run_blocking(Scoring(make("tagged"), 60, redact=str).score(record, {"source": "mail", "title": "not this"}))
    assert (record.score, record.error) == (1.0, None)
    record.state = {"outputs": "damaged"}
    assert describe_answered(record).outputs == {}


@pytest.mark.parametrize(
    ("target", "output", "value"),
    [("2", 2, 1), ("2.0", 2, 1), ("2.5", 2.5, 1), ("two", 2, 0), ("2", "2", 1), ("2", None, 0), ('["a"]', ["a"], 1)],
)
def test_what_is_expected_has_the_type_of_the_output(make: Make, target: str, output: object, value: float) -> None:
    """A program with `answer: int` would else never be right: the data hold texts."""
    outputs = {"label": output, "urgent": True, "words": ["a", "b"]}
    sample = AnsweredSample("?", "", target, {}, outputs, {"urgent": "true", "words": '["b", "a"]'})
    assert score(make("typed"), sample).value == value


def test_an_object_of_the_programs_own_class_has_its_fields_also_when_it_was_stored(make: Make) -> None:
    outputs = {"place": {"city": "Paris"}, "stops": [{"name": "Lyon"}]}
    assert score(make("nested"), AnsweredSample("?", "", "x", {}, outputs)).value == 1
