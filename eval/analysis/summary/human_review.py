"""Numbers of what people have said of a run: corrected targets, overruled verdicts, a judge's agreement with them.

summarise_review(rows, incomplete=False).n_corrected
compare_with_people(judged_rows).kappa
"""

from collections.abc import Collection, Sequence
from dataclasses import fields

from eval.analysis.statistics.intervals import Interval, compute_clustered_interval
from eval.analysis.statistics.kappa import HumanAgreement, estimate_agreement
from eval.analysis.statistics.metric_interval import compute_metric_interval
from eval.analysis.summary.epochs import count_correct, group_by_sample
from eval.analysis.summary.rows import Row
from eval.analysis.summary.summary import AccuracyWithout, Correction, HumanReview
from eval.runs.record import HumanVerdict
from eval.scorers.score import read_value

# As in `eval.analysis.human_review.labels`, which writes them.
_RIGHT, _WRONG, _WRONG_GOLD, _AMBIGUOUS, _BAD_QUESTION = "right", "wrong", "wrong_gold", "ambiguous", "bad_question"


def summarise_review(final: Sequence[Row], incomplete: bool) -> HumanReview | None:
    """Return the labels on a run; None if there are none.

    Args:
        final: the last attempt at each (sample, epoch).
        incomplete: True if answers are missing: there are no intervals then.
    """
    reviewed = [each for each in final if each.human]
    if not reviewed:
        return None
    applied = [each for each in reviewed if any(verdict.is_applied for verdict in each.human)]
    scored = [each for each in final if each.scored]
    unfair = _select_ids(applied, _AMBIGUOUS) | _select_ids(applied, _BAD_QUESTION)
    before = [read_original_value(each) for each in scored]
    return HumanReview(
        n_corrected=len(_select_ids(applied, _WRONG_GOLD)),
        n_accepted=sum(each.correct and not was_accepted(each) and _has(each, _RIGHT) for each in applied),
        n_rejected=sum(was_accepted(each) and not each.correct and _has(each, _WRONG) for each in applied),
        n_ambiguous=len(_select_ids(applied, _AMBIGUOUS)),
        n_bad_questions=len(_select_ids(applied, _BAD_QUESTION)),
        n_pending=len(reviewed) - len(applied),
        accuracy_before=sum(value == 1.0 for value in before) / len(before) if before and applied else None,
        score_before=sum(before) / len(before) if before and applied else None,
        corrections=tuple(_list_corrections(applied)),
        **vars(measure_without(final, unfair, incomplete)),
    )


def _has(row: Row, label: str) -> bool:
    return any(each.label == label for each in row.human)


def _select_ids(rows: Sequence[Row], label: str) -> set[str]:
    return {each.sample_id for each in rows if _has(each, label)}


def _list_corrections(rows: Sequence[Row]) -> list[Correction]:
    found: dict[str, tuple[str, HumanVerdict]] = {}
    for row in rows:
        for verdict in row.human:
            found.setdefault(verdict.id, (row.sample_id, verdict))
    names = [each.name for each in fields(Correction) if each.name != "sample_id"]
    return [
        Correction(sample_id=sample_id, **{name: getattr(verdict, name) for name in names})
        for sample_id, verdict in found.values()
    ]


def read_original_value(row: Row) -> float:
    """Return what the scorer gave for an answer, before a person's label."""
    applied = next((each for each in row.human if each.is_applied), None)
    return row.value if applied is None else read_value(applied.score_before)


def was_accepted(row: Row) -> bool:
    """Return whether the scorer accepted an answer, before a person's label."""
    return row.scored and read_original_value(row) == 1.0


def compare_with_people(judged: Sequence[Row]) -> HumanAgreement | None:
    """Return the agreement of a judge with people's labels on single answers; None: no human labels yet.

    Labels of the same answer to a sample count once, and those on questions whose target is wrong say nothing of it.

    Args:
        judged: final answers that a judge has scored.
    """
    labelled = {}
    for row in judged:
        label = next((each.label for each in row.human if each.label in (_RIGHT, _WRONG)), None)
        if label is not None and not _has(row, _WRONG_GOLD):
            labelled[row.sample_id, row.vote] = (was_accepted(row), label == _RIGHT)
    pairs = list(labelled.values())
    right_of = {verdict: [right for accepted, right in pairs if accepted is verdict] for verdict in (True, False)}
    n_accepted = sum(map(was_accepted, judged))
    return estimate_agreement(
        accepted=(sum(right_of[True]), len(right_of[True])),
        rejected=(sum(right_of[False]), len(right_of[False])),
        n_accepted=n_accepted,
        n_rejected=len(judged) - n_accepted,
    )


def measure_without(final: Sequence[Row], left_out: Collection[str], incomplete: bool) -> AccuracyWithout:
    """Return the metric without some of the samples.

    Args:
        final: the last attempt at each (sample, epoch).
        left_out: ids of the samples; empty: nothing is left out.
        incomplete: True if answers are missing: there are no intervals then.
    """
    others = [each for each in final if each.scored and each.sample_id not in left_out]
    tallies = [count_correct(rows) for rows in group_by_sample(others)]
    return AccuracyWithout(
        accuracy_without=sum(each.correct for each in others) / len(others) if left_out and others else None,
        accuracy_without_ci95=compute_clustered_interval(tallies) if left_out and not incomplete else None,
        score_without=compute_mean(others) if left_out else None,
        score_without_ci95=compute_score_interval(others) if left_out and not incomplete else None,
        n_without=len(others),
    )


def compute_mean(scored: Sequence[Row]) -> float | None:
    return sum(each.value for each in scored) / len(scored) if scored else None


def compute_score_interval(scored: Sequence[Row]) -> Interval | None:
    return compute_metric_interval([[each.value for each in attempts] for attempts in group_by_sample(scored)])
