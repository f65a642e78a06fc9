from dataclasses import replace

from eval.analysis.statistics.kappa import estimate_agreement
from eval.analysis.summary.summarise import RunDetails, summarise
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
