"""Numbers of what people have said of a run: corrected targets and overruled verdicts.

summarise_review(rows, incomplete=False).n_corrected
"""

from collections.abc import Sequence

from eval.analysis.human_review.labels import AMBIGUOUS, BAD_QUESTION, RIGHT, WRONG, WRONG_GOLD
from eval.analysis.summary.rows import Row, measure_without
from eval.analysis.summary.summary import HumanReview
from eval.scorers.score import read_value


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
    unfair = _select_ids(applied, AMBIGUOUS) | _select_ids(applied, BAD_QUESTION)
    before = [_read_original_value(each) for each in scored]
    return HumanReview(
        n_corrected=len(_select_ids(applied, WRONG_GOLD)),
        n_accepted=sum(each.correct and not _was_accepted(each) and _has(each, RIGHT) for each in applied),
        n_rejected=sum(_was_accepted(each) and not each.correct and _has(each, WRONG) for each in applied),
        n_ambiguous=len(_select_ids(applied, AMBIGUOUS)),
        n_bad_questions=len(_select_ids(applied, BAD_QUESTION)),
        n_pending=len(reviewed) - len(applied),
        score_before=sum(before) / len(before) if before and applied else None,
        without=measure_without(final, unfair, incomplete),
    )


def _has(row: Row, label: str) -> bool:
    return any(each.label == label for each in row.human)


def _select_ids(rows: Sequence[Row], label: str) -> set[str]:
    return {each.sample_id for each in rows if _has(each, label)}


def _read_original_value(row: Row) -> float:
    """Return what the scorer gave for an answer, before a person's label."""
    applied = next((each for each in row.human if each.is_applied), None)
    return row.value if applied is None else read_value(applied.score_before)


def _was_accepted(row: Row) -> bool:
    """Return whether the scorer accepted an answer, before a person's label."""
    return row.scored and _read_original_value(row) == 1.0
