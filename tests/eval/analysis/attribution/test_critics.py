"""Tests of critics as classifiers, over records put together from a few agents' steps."""

from dataclasses import astuple, replace

import pytest

from eval.analysis.attribution.broken_link import BrokenLink, Evidence
from eval.analysis.attribution.critics import CriticCount, CriticTally, was_last_approval_right
from eval.analysis.attribution.predictor_attribution import INPUTS
from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from tests.optimize.simulated_runs import lm, record, step

APPROVED, REJECTED = {"decision": "approve"}, {"decision": "reject: no"}
REPORT = step("researcher", report="It is green.")
RIGHT, WRONG = step("expert", result="17"), step("expert", result="18")
LAST = step("expert_of_form", final_answer="17")


def blame(name: str, kind: str = "agent") -> BrokenLink:
    return BrokenLink(kind, name, Evidence("why"))  # type: ignore[arg-type]


def count(made: Record, link: BrokenLink | None = None, critics: tuple[str, ...] | None = None) -> CriticCount:
    tally = CriticTally(critics)
    tally.add(made, link)
    return tally.counts.get("critic", CriticCount())


def verdicts(found: CriticCount) -> tuple[int, ...]:
    """Approved right and wrong, rejected right and wrong, unknown."""
    (reviews,) = found.by_sample.values() or [None]
    return (*(astuple(reviews) if reviews else (0, 0, 0, 0)), found.n_unknown)


@pytest.mark.parametrize(
    ("draft", "review", "expected"),
    [
        (RIGHT, APPROVED, (1, 0, 0, 0, 0)),
        (WRONG, APPROVED, (0, 1, 0, 0, 0)),
        (RIGHT, REJECTED, (0, 0, 1, 0, 0)),
        (WRONG, REJECTED, (0, 0, 0, 1, 0)),
    ],
)
def test_a_draft_is_judged_by_the_gold_answer(draft: list, review: dict[str, str], expected: tuple[int, ...]) -> None:  # type: ignore[type-arg]
    found = count(record("17", "17", [draft, step("critic", **review), LAST]))
    assert verdicts(found) == expected
    assert (found.n_reviews, found.n_drafts, found.judges) == (1, 1, {"expert"})


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (None, (1, 0, 0, 0, 0)),
        (blame("researcher"), (0, 1, 0, 0, 0)),
        (blame("researcher", "format"), (0, 1, 0, 0, 0)),
        (blame("researcher", "tool"), (1, 0, 0, 0, 0)),
        (blame("expert"), (1, 0, 0, 0, 0)),
    ],
)
def test_other_work_is_wrong_if_its_agent_is_to_blame(link: BrokenLink | None, expected: tuple[int, ...]) -> None:
    found = count(record("17", "18", [REPORT, step("critic", **APPROVED), WRONG, LAST]), link)
    assert verdicts(found) == expected
    assert (found.n_reviews, found.n_drafts, found.judges) == (1, 0, {"researcher"})


def test_earlier_work_and_work_before_an_error_are_not_judged() -> None:
    twice = [REPORT, step("critic", **REJECTED), REPORT, step("critic", **APPROVED), RIGHT, LAST]
    assert verdicts(count(record("17", "17", twice))) == (1, 0, 0, 0, 1)
    once = record("17", None, [REPORT, step("critic", **APPROVED)], error="gone", error_class="server")
    with_draft_after = replace(once, trajectory=record("17", None, twice[2:]).trajectory)
    assert verdicts(count(with_draft_after, blame("server", "error"))) == (0, 0, 0, 0, 1)
    assert verdicts(count(with_draft_after, blame("researcher"))) == (0, 1, 0, 0, 0)
    unscored = replace(record("17", "17", [RIGHT, step("critic", **APPROVED), LAST]), target=None, score=None)
    assert verdicts(count(unscored)) == (0, 0, 0, 0, 1)


def test_a_rejection_of_wrong_work_before_a_right_answer_has_recovered_it_once() -> None:
    rejected = [WRONG, step("critic", **REJECTED)]
    found = count(record("17", "17", [*rejected, *rejected, RIGHT, step("critic", **APPROVED), LAST]))
    assert (found.n_reviews, found.n_rejecting, found.n_recovered) == (3, 1, 1)
    lost = count(record("17", "18", [*rejected, WRONG, LAST]))
    assert (lost.n_rejecting, lost.n_recovered) == (1, 0)
    false_alarm = count(record("17", "17", [RIGHT, step("critic", **REJECTED), RIGHT, LAST]))
    assert (false_alarm.n_rejecting, false_alarm.n_recovered) == (1, 0)
    of_a_report = count(record("17", "17", [REPORT, step("critic", **REJECTED), REPORT, RIGHT, LAST]))
    assert (of_a_report.n_rejecting, of_a_report.n_recovered) == (1, 1)
    approved = count(record("17", "17", [RIGHT, step("critic", **APPROVED), LAST]))
    assert (approved.n_rejecting, approved.n_recovered) == (0, 0)


def test_only_declared_critics_count_and_none_of_a_users_own_program() -> None:
    made = record("17", "17", [RIGHT, step("critic", **APPROVED), LAST])
    assert count(made, critics=("critic",)).n_reviews == 1
    assert count(made, critics=("other",)).n_reviews == 0
    assert count(replace(made, state={INPUTS: {}})).n_reviews == 0


def test_the_cost_is_that_of_the_critics_own_steps_and_requests() -> None:
    def request(cost: float | None) -> dict[str, object]:
        return {**lm(), "attributes": {"input_tokens": 10, "output_tokens": 3, "cost_usd": cost}}

    review = step("critic", request(0.5), request(None), **APPROVED)
    review[0] |= {"start_seconds": 2.0, "end_seconds": 3.5}
    unended = step("critic", request(0.25), **APPROVED)
    unended[0] |= {"start_seconds": 9.0}
    found = count(record("17", "17", [step("expert", request(7.0), result="17"), review, unended, LAST]))
    assert (found.lm_calls, found.input_tokens, found.output_tokens) == (3, 30, 9)
    assert (found.known_cost_usd, found.unknown_cost_calls, found.seconds) == (0.75, 1, 1.5)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([RIGHT, step("critic", **APPROVED), LAST], True),
        ([WRONG, step("critic", **APPROVED), LAST], False),
        ([RIGHT, step("critic", **REJECTED), LAST], False),
        ([RIGHT, step("critic", **APPROVED), WRONG, step("critic", **APPROVED), LAST], False),
        ([step("researcher", report="17"), step("critic", **APPROVED), WRONG, LAST], False),
        ([RIGHT, LAST], False),
    ],
)
def test_the_last_approval_was_right_only_of_a_right_draft(steps: list, expected: bool) -> None:  # type: ignore[type-arg]
    assert was_last_approval_right(record("17", "18", steps)) is expected


def test_each_answer_of_a_run_adds_to_its_samples_and_to_the_critics_of_its_own() -> None:
    tally = CriticTally(None)
    wrong_then_right = [WRONG, step("critic", **REJECTED), RIGHT, step("critic", **APPROVED), step("other", **REJECTED)]
    for sample_id, answer in (("q1", "17"), ("q1", "18"), ("q2", "17")):
        tally.add(replace(record("17", answer, [*wrong_then_right, LAST]), sample_id=sample_id), None)
    critic, other = tally.counts["critic"], tally.counts["other"]
    assert list(tally.counts) == ["critic", "other"]
    assert {name: astuple(each) for name, each in critic.by_sample.items()} == {"q1": (2, 0, 0, 2), "q2": (1, 0, 0, 1)}
    assert {name: astuple(each) for name, each in other.by_sample.items()} == {"q1": (0, 0, 2, 0), "q2": (0, 0, 1, 0)}
    assert (critic.n_reviews, critic.n_drafts, critic.n_rejecting, critic.n_recovered) == (6, 6, 3, 2)
    assert (other.n_reviews, other.n_drafts, other.n_rejecting, other.n_recovered) == (3, 3, 3, 0)
    assert critic.judges == other.judges == {"expert"}


def test_what_belongs_to_a_critic_is_all_that_its_span_holds_at_any_depth() -> None:
    def spent(**amounts: object) -> dict[str, object]:
        return {"kind": "lm", "name": "m", "attributes": amounts}

    inside = {"id": 4, "parent": 3, **spent(input_tokens=5, cost_usd=0.25)}
    spans = [
        {"id": 1, "parent": None, "kind": "agent", "name": "expert", "outputs": {"result": "17"}, "start_seconds": 1.0,
         "end_seconds": 9.0},
        {"id": 2, "parent": None, "kind": "agent", "name": "critic", "outputs": APPROVED, "start_seconds": 0.0,
         "end_seconds": 2.5},
        {"id": 3, "parent": 2, "kind": "module", "name": "inner"},
        inside,
        {"id": 5, "parent": 2, "kind": "tool", "name": "search", "attributes": {"input_tokens": 99}},
        {"id": 6, "parent": 2, "kind": "lm", "name": "m"},
        {"id": 7, "parent": 99, **spent(input_tokens=50, cost_usd=5.0)},
        {"id": 8, "parent": 1, **spent(input_tokens=70, cost_usd=7.0)},
        {"id": 9, "parent": 2, "kind": "lm", "name": "m", "attributes": None},
        {"id": 10, "parent": None, "kind": "agent", "name": "critic", "outputs": APPROVED, "end_seconds": 7.0},
    ]  # fmt: skip
    found = count(replace(record("17", "17"), trajectory=spans))
    assert (found.lm_calls, found.input_tokens, found.output_tokens) == (3, 5, 0)
    assert (found.known_cost_usd, found.unknown_cost_calls, found.seconds) == (0.25, 2, 2.5)


@pytest.mark.parametrize(("labels", "is_right"), [(LabelSet(("York", "New York")), False), (None, True)])
def test_labels_decide_whether_a_draft_was_right(labels: LabelSet | None, is_right: bool) -> None:
    made = record("York", "no", [step("expert", result="in New York"), step("critic", **APPROVED), LAST])
    tally = CriticTally(["critic"], labels)
    tally.add(made, None)
    assert astuple(tally.counts["critic"].by_sample["q1"]) == (is_right, not is_right, 0, 0)
    assert was_last_approval_right(made, labels) is is_right


def test_an_approval_recovers_nothing_and_nor_does_a_false_alarm_after_it() -> None:
    approved = [REPORT, step("critic", **APPROVED)]
    found = count(record("17", "17", [*approved, *approved, RIGHT, step("critic", **REJECTED), RIGHT, LAST]))
    assert verdicts(found) == (1, 0, 1, 0, 1) and (found.n_rejecting, found.n_recovered) == (1, 0)


def test_an_answer_in_error_may_still_have_had_a_right_draft_but_has_recovered_nothing() -> None:
    failed = record("17", None, [WRONG, step("critic", **REJECTED), RIGHT, step("critic", **APPROVED)], error="gone")
    found = count(failed, blame("server", "error"))
    assert verdicts(found) == (1, 0, 0, 1, 0) and (found.n_rejecting, found.n_recovered) == (1, 0)
    unscored = replace(failed, target=None, error=None, score=None)
    assert verdicts(count(unscored)) == (0, 0, 0, 0, 2)
    assert (count(unscored).n_rejecting, count(unscored).n_recovered) == (1, 0), "nobody knows whether it was right"
