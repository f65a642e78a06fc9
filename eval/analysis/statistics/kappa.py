"""Agreement of a judge with people who labelled some of its answers: Cohen's kappa with a 95% interval.

People mostly look at failures, so their labels are no random sample: the answers that the judge accepted and those that
it rejected are estimated apart, and weighted by how many of each the run has. Without labels of both there is no
estimate (J. Cohen, Educational and Psychological Measurement 20, 1960; the weighting is that of M. Begg and R. Greenes
for verification bias, Biometrics 39, 1983). The interval holds the middle 95% of draws from the two shares' Beta
distributions with Jeffreys' prior; labels are taken as independent.

    estimate_agreement(accepted=(18, 20), rejected=(3, 30), n_accepted=400, n_rejected=100)
    # HumanAgreement(n=50, share=0.9, kappa=0.72, kappa_ci95=(0.42, 0.89), …)
"""

import random
from dataclasses import dataclass

from eval.analysis.statistics.intervals import CONFIDENCE, Interval, Tally

_DRAWS = 4_000
_SEED = 7


@dataclass(frozen=True, kw_only=True)
class HumanAgreement:
    """Agreement of a judge with people."""

    n: int  # labelled answers
    n_accepted: int  # of which: accepted by the judge
    n_confirmed: int  # labels that say the same as the judge
    share: float | None  # of all the judge's verdicts with which people would agree; None: see `kappa`
    kappa: float | None  # None: only accepted, or only rejected answers are labelled
    kappa_ci95: Interval | None


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
