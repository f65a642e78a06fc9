"""What passes the gate, what does not, and the sentences that say so."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.answers import build_answers
from eval.analysis.comparison.comparison import Comparison, compare_answers
from eval.runs.record import Record, Usage
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from optimize.gate.gate import GateSettings, find_long_prompts, judge


def records(rights: Sequence[Sequence[bool]], cost_usd: float | None = 0.02, malformed: int = 0) -> list[Record]:
    """A question a row, an epoch a column; of the wrong answers the first so many could not be read."""
    made = []
    for place, row in enumerate(rights):
        for epoch, right in enumerate(row, start=1):
            lost = not right and malformed > 0
            malformed -= lost
            cost = None if cost_usd is None else cost_usd * (1 + place % 3)
            made.append(
                Record(
                    "r", f"q{place}", epoch, 1, "t", "?", None, "1", "17", answer="17", score=float(right),
                    error="unreadable" if lost else None, error_class="malformed" if lost else None,
                    usage=Usage(1, cost_usd=cost),
                )
            )  # fmt: skip
    return made


def made(wins: int, losses: int, ties: int, epochs: int = 1, **changes: Any) -> Comparison:
    """`changes`: what `records` takes, for the winner."""
    before = [[False] * epochs] * wins + [[True] * epochs] * losses + [[False] * epochs] * ties
    after = [[True] * epochs] * wins + [[False] * epochs] * losses + [[False] * epochs] * ties
    return compare_answers(build_answers(records(before)), build_answers(records(after, **changes)))


def test_a_clear_gain_is_published_and_the_reasons_say_why() -> None:
    verdict = judge(GateSettings(), made(12, 1, 40))
    assert (verdict.published, verdict.finish_reason) == (True, "improved")
    assert verdict.gain == pytest.approx(11 / 53)
    assert verdict.gain_ci95 is not None
    assert verdict.gain_ci95[0] > 0
    assert verdict.questions_needed is not None
    assert verdict.questions_needed <= 53
    assert "+20.8 points" in verdict.reasons[0]
    assert "53 questions" in verdict.reasons[0]
    assert "p is 0.00342 (exact McNemar)" in verdict.reasons[1]


def test_an_unclear_gain_is_not_and_how_many_questions_it_would_take_is_told() -> None:
    verdict = judge(GateSettings(), made(6, 3, 44))
    assert (verdict.published, verdict.finish_reason) == (False, "not_significant")
    assert len(verdict.reasons) == 2
    assert verdict.questions_needed is not None
    assert verdict.questions_needed > 53


def test_no_gain_needs_no_number_of_questions() -> None:
    for found in (made(0, 0, 20), made(1, 5, 14)):
        verdict = judge(GateSettings(), found)
        assert (verdict.published, verdict.questions_needed) == (False, None)


def test_the_interval_alone_is_not_enough() -> None:
    found = made(5, 0, 48)
    assert found.accuracy.ci95
    assert found.accuracy.ci95[0] > 0
    verdict = judge(GateSettings(), found)
    assert (verdict.published, verdict.finish_reason) == (False, "not_significant")
    assert verdict.reasons == ["p is 0.0625 (exact McNemar), above the required 0.05."]


def test_the_gain_must_be_above_the_least_one() -> None:
    found = made(12, 1, 40)
    assert found.accuracy.ci95
    below, above = (GateSettings(min_gain=found.accuracy.ci95[0] + step) for step in (-0.001, 0.001))
    assert judge(below, found).published
    assert not judge(above, found).published


@pytest.mark.parametrize(("malformed", "published"), [(0, True), (2, True), (8, False)])
def test_new_losses_by_format_are_a_reason_of_their_own(malformed: int, published: bool) -> None:
    verdict = judge(GateSettings(), made(12, 1, 40, malformed=malformed))
    assert verdict.published == published, "2 of 53 may be chance"
    if not published:
        assert verdict.finish_reason == "format_loss"
        assert "0.0% with the parent's prompts" in verdict.reasons[0]


def test_fewer_losses_by_format_are_welcome() -> None:
    rights = [[True]] * 12 + [[False]] * 41
    before = records([[False]] * 53, malformed=20)
    found = compare_answers(build_answers(before), build_answers(records(rights)))
    assert judge(GateSettings(), found).published


def test_for_cost_the_answers_must_be_cheaper_and_not_worse() -> None:
    settings = GateSettings(objective="cost", margin=0.08)
    cheaper, dearer = made(3, 3, 200, cost_usd=0.01), made(3, 3, 200, cost_usd=0.03)
    verdict = judge(settings, cheaper)
    assert verdict.published
    assert "$0.03990 before, $0.01995 now" in verdict.reasons[1]
    assert judge(settings, dearer).reasons[0].endswith("the interval does not lie below 0.")
    assert not judge(settings, made(2, 30, 174, cost_usd=0.01)).published, "worse"
    unknown = judge(settings, made(3, 3, 200, cost_usd=None))
    assert "unknown" in unknown.reasons[0]


def test_for_cost_no_questions_cost_may_be_unknown() -> None:
    """The questions whose cost is not known may be those that cost most: here, the only ones that are dearer."""
    before, after = records([[True]] * 100), records([[True]] * 100, cost_usd=0.01)
    settings = GateSettings(objective="cost", margin=0.08)
    assert judge(settings, compare_answers(build_answers(before), build_answers(after))).published
    for record in after[:3]:
        record.usage.cost_usd = None
    verdict = judge(settings, compare_answers(build_answers(before), build_answers(after)))
    assert (verdict.published, verdict.finish_reason) == (False, "not_significant")
    assert verdict.reasons[0].startswith("The cost of 3 of the 100 sealed questions is unknown")


@pytest.mark.parametrize(("objective", "published"), [("accuracy", True), ("cost", False)])
def test_answers_wrong_in_their_form_alone_are_losses_where_nothing_has_to_become_better(
    objective: str, published: bool
) -> None:
    before = records([[True]] * 100 + [[False]] * 100)
    after = records([[True]] * 140 + [[False]] * 60, cost_usd=0.01)
    for record in after[-8:]:
        record.parts["format_loss"] = 1.0
    found = compare_answers(build_answers(before), build_answers(after))
    verdict = judge(GateSettings(objective), found)
    assert verdict.published == published
    if not published:
        assert verdict.finish_reason == "format_loss"
        assert "wrong in their form alone: 4.0% of the answers, 0.0% with the parent's" in verdict.reasons[0]


def test_one_question_passes_no_gate() -> None:
    for objective in ("accuracy", "cost"):
        verdict = judge(GateSettings(objective), made(1, 0, 0, cost_usd=0.01))
        assert not verdict.published


def test_a_prompt_is_measured_with_its_demos() -> None:
    demos: dict[str, list[dict[str, Any]]] = {"finalizer": [{"answer_request": "é" * 60}]}
    prompts = PromptSet("s", "toy", {"planner": "p" * 100, "finalizer": "f" * 50}, Path(), demos=demos)
    assert find_long_prompts(GateSettings(max_prompt_chars=100), prompts) == ["finalizer (134 characters)"]
    assert find_long_prompts(GateSettings(), prompts) == []


@pytest.mark.parametrize(
    "wrong",
    [{"objective": "speed"}, {"min_gain": -0.1}, {"margin": 1.0}, {"epochs": 0}, {"max_prompt_chars": 0},
     {"max_metric_error_share": 2.0}],
)  # fmt: skip
def test_settings_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    GateSettings().check()
    with pytest.raises(UserError, match=f"gate.{next(iter(wrong))}="):
        GateSettings(**wrong).check()
