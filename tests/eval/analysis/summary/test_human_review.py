from dataclasses import replace

from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.analysis.statistics.kappa import estimate_agreement
from eval.analysis.statistics.metric_interval import compute_metric_interval
from eval.analysis.summary.human_review import (
    compare_with_people,
    compute_mean,
    measure_without,
    read_original_value,
    summarise_review,
    was_accepted,
)
from eval.analysis.summary.rows import Row, build_row
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import AccuracyWithout, Correction, HumanReview
from eval.runs.record import HumanVerdict, Record
from tests.eval.stored_run import answered

JUDGED = {"parts": {"rule": 0.0, "exact": 0.0}}


def reviewed(record: Record, label: str, before: float | None = None, applied: bool = True, **parts: str) -> Record:
    score_before = record.score if before is None else before
    verdict = HumanVerdict(f"{record.sample_id}-{label}", label, "ada", "2026", "night", is_applied=applied,
                           score_before=score_before, target_before="17", **parts)  # fmt: skip
    return replace(record, human=[*record.human, verdict])


def test_a_summary_shows_what_people_changed_and_the_score_before() -> None:
    records = [
        reviewed(answered("q1", "18", gold="18"), "wrong_gold", before=0.0, target="18", note="table 2"),
        reviewed(answered("q2", "18", score=1.0), "right", before=0.0),
        reviewed(answered("q3", "17", score=0.0), "wrong", before=1.0),
        reviewed(answered("q4", "x"), "ambiguous"),
        reviewed(answered("q5", "x"), "bad_question"),
        answered("q6", "17"),
    ]
    found = summarise(records, RunDetails(run_id="r"))
    review = found.human_review
    assert review is not None
    assert (found.score, review.score_before) == (3 / 6, 2 / 6)
    assert (review.n_corrected, review.n_accepted, review.n_rejected) == (1, 1, 1)
    assert (review.n_ambiguous, review.n_bad_questions, review.n_without) == (1, 1, 4)
    assert found.n_scored == 6  # ambiguous questions stay in the denominator
    assert review.accuracy_without == 3 / 4
    first = review.corrections[0]
    assert (first.who, first.note, first.target_before, first.target) == ("ada", "table 2", "17", "18")


def test_a_label_that_is_not_applied_is_pending_and_changes_nothing() -> None:
    found = summarise([reviewed(answered("q1", "18"), "right", applied=False)], RunDetails(run_id="r"))
    review = found.human_review
    assert review is not None
    assert (found.score, review.n_pending, review.n_accepted, review.score_before) == (0.0, 1, 0, None)
    assert summarise([answered("q1", "18")], RunDetails(run_id="r")).human_review is None


def test_a_judge_is_compared_with_people_by_its_own_verdict_also_when_it_was_overruled() -> None:
    judged = [replace(answered(f"q{n}", "17"), **JUDGED) for n in range(10)]
    judged += [replace(answered(f"w{n}", "x"), **JUDGED) for n in range(10)]
    labelled = [reviewed(each, "right", applied=False) for each in judged[:4]]
    labelled += [reviewed(replace(each, score=1.0), "right", before=0.0) for each in judged[10:11]]
    labelled += [reviewed(each, "wrong", applied=False) for each in judged[11:14]]
    records = [*labelled, *judged[4:10], *judged[14:]]
    agreement = summarise(records, RunDetails(run_id="r")).judge_agreement
    assert agreement and agreement.people
    assert (agreement.people.n, agreement.people.n_accepted, agreement.people.n_confirmed) == (8, 4, 7)
    assert agreement.people.kappa == 0.75  # 4 of 4 accepted ones right, 1 of 4 rejected ones
    without = summarise(judged, RunDetails(run_id="r")).judge_agreement
    assert without and without.people is None


def test_an_answer_to_a_question_with_a_wrong_target_says_nothing_of_the_judge() -> None:
    record = reviewed(reviewed(replace(answered("q1", "18"), **JUDGED), "wrong_gold"), "right")
    agreement = summarise([record], RunDetails(run_id="r")).judge_agreement
    assert agreement and agreement.people is None


def test_of_two_labels_one_that_is_applied_suffices_and_its_score_before_counts() -> None:
    record = reviewed(reviewed(answered("q1", "18", score=1.0), "ambiguous", applied=False), "right", before=0.0)
    review = summarise([record, answered("q2", "17")], RunDetails(run_id="r")).human_review
    assert review is not None
    assert (review.n_pending, review.n_accepted, review.accuracy_before, review.score_before) == (0, 1, 0.5, 0.5)
    assert [each.label for each in review.corrections] == ["ambiguous", "right"]


def test_people_confirm_accepted_and_rejected_answers_apart() -> None:
    judged = [replace(answered(f"q{n}", "17"), **JUDGED) for n in range(6)]
    judged += [replace(answered(f"w{n}", "x"), **JUDGED) for n in range(4)]
    labels = ["right", "right", "wrong", None, None, None, "right", "wrong", "wrong", "wrong"]
    records = [each if label is None else reviewed(each, label, applied=False)
               for each, label in zip(judged, labels, strict=True)]  # fmt: skip
    agreement = summarise(records, RunDetails(run_id="r")).judge_agreement
    assert agreement is not None
    assert agreement.people == estimate_agreement(accepted=(2, 3), rejected=(1, 4), n_accepted=6, n_rejected=4)


def rows(*records: Record) -> list[Row]:
    return [build_row(each) for each in records]


def test_what_people_said_of_a_run_whole() -> None:
    final = rows(
        reviewed(answered("q1", "18", gold="18"), "wrong_gold", before=0.5, target="18", note="table 2"),
        reviewed(answered("q1", "18", gold="18", epoch=2), "wrong_gold", before=0.0, target="18", note="table 2"),
        reviewed(answered("q2", "18", score=1.0), "right", before=0.0),
        reviewed(answered("q3", "17", score=1.0), "right", before=1.0),  # the scorer had accepted it
        reviewed(answered("q4", "17", score=0.0), "wrong", before=0.0),  # and had rejected this one
        reviewed(answered("q5", "x"), "ambiguous"),
        reviewed(answered("q6", "x"), "wrong", applied=False),
        answered("q7", "17", score=0.5),
        answered("q8", "17", gold=None),
    )
    found = summarise_review(final, incomplete=False)
    common = {"who": "ada", "when": "2026", "run": "night", "note": "", "target_before": "17", "target": None}
    kept = [("q2", "right", 0.0), ("q3", "right", 1.0), ("q4", "wrong", 0.0), ("q5", "ambiguous", 0.0)]
    assert found == HumanReview(
        n_corrected=1, n_accepted=1, n_rejected=0, n_ambiguous=1, n_bad_questions=0, n_pending=1,
        accuracy_before=1 / 8, score_before=2 / 8,
        corrections=(
            Correction(sample_id="q1", label="wrong_gold", score_before=0.5,
                       **{**common, "target": "18", "note": "table 2"}),  # type: ignore[arg-type]
            *(Correction(sample_id=of, label=label, score_before=before, **common)  # type: ignore[arg-type]
              for of, label, before in kept),
        ),
        accuracy_without=4 / 7,
        accuracy_without_ci95=compute_clustered_interval([(2, 2), (1, 1), (1, 1), (0, 1), (0, 1), (0, 1)]),
        score_without=4.5 / 7,
        score_without_ci95=compute_metric_interval([(1, 1), (1,), (1,), (0,), (0,), (0.5,)]),
        n_without=7,
    )  # fmt: skip
    unfinished = summarise_review(final, incomplete=True)
    assert unfinished == replace(found, accuracy_without_ci95=None, score_without_ci95=None)
    assert summarise_review(final[-2:], incomplete=False) is None


def test_without_an_unfair_question_nothing_is_left_out() -> None:
    final = rows(answered("q1", "17"), answered("q2", "18", score=0.5), answered("q3", "1", gold=None))
    nothing = AccuracyWithout(accuracy_without=None, accuracy_without_ci95=None, n_without=2)
    assert measure_without(final, (), incomplete=False) == nothing
    all_out = measure_without(final, {"q1", "q2"}, incomplete=False)
    assert all_out == replace(nothing, n_without=0)
    one = measure_without(final, {"q1"}, incomplete=True)
    assert one == replace(nothing, accuracy_without=0.0, score_without=0.5, n_without=1)
    assert compute_mean([]) is None and compute_mean(final[:2]) == 0.75


def test_what_the_scorer_gave_is_what_it_gave_before_a_label_that_was_applied() -> None:
    applied = reviewed(answered("q1", "18", score=1.0), "right", before=0.25)
    pending = reviewed(answered("q1", "18", score=1.0), "right", before=0.25, applied=False)
    assert [read_original_value(each) for each in rows(applied, pending, answered("q1", "17"))] == [0.25, 1.0, 1.0]
    accepted = rows(answered("q1", "17"), answered("q1", "17", score=0.99), answered("q1", "17", gold=None, score=1.0))
    assert [was_accepted(each) for each in accepted] == [True, False, False]
    assert not was_accepted(rows(reviewed(answered("q1", "18", score=1.0), "right", before=0.0))[0])


def test_the_same_answer_to_a_sample_counts_once_in_the_agreement() -> None:
    right, wrong = answered("q1", "17"), answered("q1", "18")
    labelled = [reviewed(right, "right"), reviewed(replace(right, epoch=2), "right"), reviewed(wrong, "wrong")]
    ambiguous = reviewed(answered("q2", "17"), "ambiguous")
    found = compare_with_people(rows(*labelled, ambiguous, answered("q3", "17")))
    assert found == estimate_agreement(accepted=(1, 1), rejected=(0, 1), n_accepted=4, n_rejected=1)
