"""Numbers of what people have said of a run: corrected targets, overruled verdicts, a judge's agreement with them.

People mostly look at failures, so their labels are no random sample: the answers that the judge accepted and those that
it rejected are estimated apart, and weighted by how many of each the run has. Without labels of both there is no
estimate (J. Cohen, Educational and Psychological Measurement 20, 1960; the weighting is that of M. Begg and R. Greenes
for verification bias, Biometrics 39, 1983). The interval holds the middle 95% of draws from the two shares' Beta
distributions with Jeffreys' prior; labels are taken as independent.

    summarise_review(rows, incomplete=False).n_corrected
    compare_with_people(judged_rows).kappa
    estimate_agreement(accepted=(18, 20), rejected=(3, 30), n_accepted=400, n_rejected=100)
    # HumanAgreement(n=50, share=0.9, kappa=0.72, kappa_ci95=(0.42, 0.89), …)
"""

import random
from collections.abc import Sequence
from dataclasses import fields

from eval.analysis.statistics.intervals import CONFIDENCE, Interval, Tally
from eval.analysis.summary.rows import Row, measure_without
from eval.analysis.summary.summary import Correction, HumanAgreement, HumanReview
from eval.runs.record import HumanVerdict
from eval.scorers.score import read_value

_DRAWS = 4_000
_SEED = 7
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


def estimate_agreement(accepted: Tally, rejected: Tally, n_accepted: int, n_rejected: int) -> HumanAgreement | None:
    """Return the agreement; None without any label.

    Args:
        accepted: labelled answers that the judge accepted: right by people's labels, and all.
        rejected: the same of those that it rejected.
        n_accepted: answers that the judge accepted, labelled or not.
        n_rejected: the same of those that it rejected.
    """
    n = accepted[1] + rejected[1]
    if not n:
        return None
    n_confirmed = accepted[0] + rejected[1] - rejected[0]
    share = kappa = interval = None
    if accepted[1] and rejected[1]:
        weight = n_accepted / (n_accepted + n_rejected)
        right, missed = accepted[0] / accepted[1], rejected[0] / rejected[1]
        share = round(weight * right + (1 - weight) * (1 - missed), 4)
        kappa = round(_compute_kappa(weight, right, missed), 4)
        interval = _draw_interval(weight, accepted, rejected)
    return HumanAgreement(
        n=n, n_accepted=accepted[1], n_confirmed=n_confirmed, share=share, kappa=kappa, kappa_ci95=interval
    )


def _compute_kappa(weight: float, right: float, missed: float) -> float:
    """Return kappa from the share of accepted answers, and the shares of right ones among accepted and rejected."""
    agreed = weight * right + (1 - weight) * (1 - missed)
    all_right = weight * right + (1 - weight) * missed
    by_chance = weight * all_right + (1 - weight) * (1 - all_right)
    return (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


def _draw_interval(weight: float, accepted: Tally, rejected: Tally) -> Interval:
    draw = random.Random(_SEED)
    found = sorted(
        _compute_kappa(weight, _draw_share(draw, accepted), _draw_share(draw, rejected)) for _ in range(_DRAWS)
    )
    cut = round(_DRAWS * (1 - CONFIDENCE) / 2)
    return round(found[cut], 4), round(found[-cut - 1], 4)


def _draw_share(draw: random.Random, tally: Tally) -> float:
    n_right, n = tally
    return draw.betavariate(n_right + 0.5, n - n_right + 0.5)
