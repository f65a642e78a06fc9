"""Critics as classifiers of the work that they reviewed, as a summary shows them; loaded for a run that has any.

summarise_critics(tally.counts, incomplete=False)["critic_expert"].precision
"""

from collections.abc import Mapping, Sequence

from eval.analysis.attribution.critics import CriticCount, SampleReviews
from eval.analysis.statistics.intervals import Interval, Tally, compute_clustered_interval
from eval.analysis.summary.summary import CriticNumbers


def summarise_critics(counts: Mapping[str, CriticCount], incomplete: bool) -> dict[str, CriticNumbers]:
    """Return the numbers of each critic by name."""
    return {name: _summarise_critic(counts[name], incomplete) for name in sorted(counts)}


def _summarise_critic(count: CriticCount, incomplete: bool) -> CriticNumbers:
    reviews = list(count.by_sample.values())
    precision = _share([(each.rejected_wrong, each.rejected_wrong + each.rejected_right) for each in reviews])
    recall = _share([(each.rejected_wrong, each.rejected_wrong + each.approved_wrong) for each in reviews])
    counts = ("n_reviews", "n_unknown", "n_rejections", "n_quoting", "n_rejecting", "n_recovered")
    spent = ("lm_calls", "input_tokens", "output_tokens")
    return CriticNumbers(
        judges=tuple(sorted(count.judges)),
        approved_right=_sum(reviews, "approved_right"),
        misses=_sum(reviews, "approved_wrong"),
        false_alarms=_sum(reviews, "rejected_right"),
        hits=_sum(reviews, "rejected_wrong"),
        precision=precision[0],
        precision_ci95=None if incomplete else precision[1],
        recall=recall[0],
        recall_ci95=None if incomplete else recall[1],
        cost_usd=None if count.unknown_cost_calls else count.known_cost_usd,
        seconds=round(count.seconds, 3),
        **{name: getattr(count, name) for name in (*counts, *spent)},
    )


def _sum(reviews: Sequence[SampleReviews], name: str) -> int:
    return sum(getattr(each, name) for each in reviews)


def _share(tallies: Sequence[Tally]) -> tuple[float | None, Interval | None]:
    counted = [each for each in tallies if each[1]]
    total = sum(n for _, n in counted)
    return (sum(hits for hits, _ in counted) / total if total else None), compute_clustered_interval(counted)
