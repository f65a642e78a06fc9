"""Numbers of what people have said of a run: corrected targets and overruled verdicts.

summarise_review(answers, incomplete=False).n_corrected
"""

from collections.abc import Sequence

from eval.analysis.human_review.labels import OF_QUESTIONS, RIGHT, WRONG
from eval.analysis.summary.measures import Answer, measure_without
from eval.analysis.summary.summary import HumanReview
from eval.scorers.score import read_value


def summarise_review(final: Sequence[Answer], incomplete: bool) -> HumanReview:
    """Return the labels on the last attempts of a run; if answers are `incomplete`, without intervals."""
    reviewed = [each for each in final if each.human]
    applied = [each for each in reviewed if any(verdict.is_applied for verdict in each.human)]
    before = [_read_original_value(each) for each in final if each.scored]

    def select(label: str) -> list[Answer]:
        return [each for each in applied if any(verdict.label == label for verdict in each.human)]

    corrected, ambiguous, bad = ({each.sample_id for each in select(name)} for name in OF_QUESTIONS)
    return HumanReview(
        n_corrected=len(corrected),
        n_accepted=sum(each.correct and _read_original_value(each) < 1 for each in select(RIGHT)),
        n_rejected=sum(_read_original_value(each) == 1 and not each.correct for each in select(WRONG)),
        n_ambiguous=len(ambiguous),
        n_bad_questions=len(bad),
        n_pending=len(reviewed) - len(applied),
        score_before=sum(before) / len(before) if before and applied else None,
        without=measure_without(final, ambiguous | bad, incomplete),
    )


def _read_original_value(answer: Answer) -> float:
    """Return what the scorer gave for an answer, before a person's label; 0 without a target."""
    applied = next((each for each in answer.human if each.is_applied), None)
    return answer.value if applied is None else read_value(applied.score_before)
