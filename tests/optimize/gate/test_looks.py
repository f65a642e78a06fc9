"""What follows from the answers at a look, and the words for it."""

from types import SimpleNamespace
from typing import Any

import pytest

from eval.analysis.statistics.paired_tests import PairedResult, plan_looks
from optimize.gate import looks
from optimize.gate.gate import GateSettings
from optimize.gate.looks import (
    LookLine,
    decide_look,
    describe_look,
    describe_selection,
    describe_stop,
    get_required_level,
)
from optimize.gate.sequential import Decision, Look
from optimize.gate.verdict import SealedNumbers


class PredictedLook(Look):
    """A look whose prediction is given."""

    predicted = 0.0
    asked: list[Any]

    def predict_success(self, found: PairedResult, min_gain: float = 0.0) -> float:
        self.asked.append((found, min_gain))
        return self.predicted


def look_at(number: int, predicted: float) -> PredictedLook:
    look = PredictedLook(plan_looks(2, 0.03), number)
    vars(look).update(predicted=predicted, asked=[])
    return look


@pytest.mark.parametrize(
    ("published", "number", "predicted", "decision"),
    [
        (True, 1, 0.0, "success"),
        (True, 2, 0.0, "success"),
        (False, 1, 0.0499, "hopeless"),
        (False, 1, 0.05, "continue"),
        (False, 1, 1.0, "continue"),
        (False, 2, 1.0, "hopeless"),
    ],
)
def test_what_the_gate_would_publish_is_a_success_and_what_may_become_one_goes_on(
    published: bool, number: int, predicted: float, decision: Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Any] = []

    def judge(*given: Any) -> Any:
        judged.append(given)
        return SimpleNamespace(published=published)

    monkeypatch.setattr(looks, "judge", judge)
    settings, comparison, look = GateSettings(), SimpleNamespace(score="score"), look_at(number, predicted)

    assert decide_look(settings, comparison, look) == decision  # type: ignore[arg-type]
    assert judged == [(settings, comparison, look)]


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        (GateSettings(objective="accuracy", min_gain=0.02, margin=0.1), 0.02),
        (GateSettings(objective="cost", min_gain=0.02, margin=0.1), -0.1),
    ],
)
def test_a_gain_must_be_the_least_one_and_for_costs_no_loss_beyond_the_margin(
    settings: GateSettings, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "judge", lambda *_: SimpleNamespace(published=False))
    look = look_at(1, 0.5)

    decide_look(settings, SimpleNamespace(score="score"), look)  # type: ignore[arg-type]

    assert look.asked == [("score", least)]


@pytest.mark.parametrize(
    ("look", "decision", "words"),
    [
        (1, "continue", "goes on"),
        (1, "success", "stops early, with a gain"),
        (1, "hopeless", "stops early, without hope of a gain"),
        (2, "success", "stops early, with a gain"),
        (3, "success", "shows a gain"),
        (3, "hopeless", "shows no gain"),
    ],
)
def test_a_look_is_told_in_a_line(look: int, decision: Decision, words: str) -> None:
    line: LookLine = {"look": look, "n_questions": 9, "gain": 0.3, "p": 0.01, "level": 0.02, "decision": decision}
    assert describe_look(line, 3, 27) == f"look {look} of 3, 9 of 27 questions: the test {words}"


STOPPED: SealedNumbers = {
    "looks": 4, "look": 2, "stopped": "success", "n_questions": 27, "n_sealed": 53, "n_answers": 1_054,
    "n_answers_saved": 2_052,
}  # fmt: skip


@pytest.mark.parametrize(
    ("sealed", "sentence"),
    [
        ({}, None),
        ({"looks": 1, "look": 1}, None),
        (
            {**STOPPED, "look": 4},
            "all 4 looks were taken: no answer was saved; the intervals are adjusted for the looks",
        ),
        (
            STOPPED,
            "stopped at look 2 of 4, after 27 of 53 questions: a gain was shown; 2,052 of 3,106 answers were saved; "
            "the intervals are adjusted for the looks",
        ),
        (
            {**{name: value for name, value in STOPPED.items() if name != "look"}, "stopped": "hopeless"},
            "stopped at look 1 of 4, after 27 of 53 questions: a gain at the end had become improbable (below 5%); "
            "2,052 of 3,106 answers were saved; the intervals are adjusted for the looks",
        ),
    ],
)
def test_where_a_test_stopped_is_told_in_a_sentence(sealed: SealedNumbers, sentence: str | None) -> None:
    assert describe_stop(sealed) == sentence


@pytest.mark.parametrize(
    ("sealed", "is_early"),
    [({}, False), ({"looks": 2}, True), ({"looks": 2, "look": 1}, True), ({"looks": 2, "look": 2}, False),
     ({"look": 1}, False)],
)  # fmt: skip
def test_a_published_gain_is_more_biased_where_the_test_stopped_early(sealed: SealedNumbers, is_early: bool) -> None:
    more = ", and more so where the test stopped early" if is_early else ""
    assert describe_selection(sealed) == (
        f"gains that must be significant to be published look too large on average{more}"
    )


@pytest.mark.parametrize(
    ("sealed", "level"),
    [({}, None), ({"level": 0.03}, 0.03), ({"look_level": 0.01}, 0.01), ({"level": 0.03, "look_level": 0.01}, 0.01)],
)
def test_the_level_that_had_to_be_reached_is_that_of_the_look(sealed: SealedNumbers, level: float | None) -> None:
    assert get_required_level(sealed) == level
