"""Points lost at each link, and critics as classifiers, as a summary shows them.

count_lost_points(rows, links, incomplete=False)[0].points          # 0.121: of 100 points 12.1 were lost there
count_reviews(tally.counts, incomplete=False)["critic_expert"].precision
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from eval.analysis.statistics.intervals import Interval, Tally, compute_clustered_interval
from eval.analysis.summary.rows import Row, measure
from eval.analysis.summary.summary import CriticNumbers, LostPoints
from eval.runs.record import NOT_RUN

if TYPE_CHECKING:
    from eval.analysis.attribution.broken_link import BrokenLink
    from eval.analysis.attribution.critics import CriticCount, SampleReviews

_Link = tuple[str, str]  # kind and name


def count_lost_points(
    final: Sequence[Row], links: "Mapping[tuple[str, int], BrokenLink]", incomplete: bool
) -> tuple[LostPoints, ...]:
    """Return the points lost at each link, the most first. Together they are what the metric lacks to 1.

    Args:
        final: the last attempt at each (sample, epoch).
        links: by sample id and epoch, of answers that have a record.
        incomplete: True if answers are missing: there are no intervals then.
    """
    scored = [each for each in final if each.scored]
    found: defaultdict[_Link, set[int]] = defaultdict(set)
    for each in scored:
        if each.value < 1:
            found[_find(each, links)].add(id(each))
    numbers = [_count_link(link, ids, scored, incomplete) for link, ids in found.items()]
    return tuple(sorted(numbers, key=lambda each: (-each.points, each.kind, each.name)))


def _count_link(link: _Link, ids: Collection[int], scored: Sequence[Row], incomplete: bool) -> LostPoints:
    points, interval = measure(scored, incomplete, lambda row: 1.0 - row.value if id(row) in ids else 0.0)
    return LostPoints(kind=link[0], name=link[1], n=len(ids), points=points or 0.0, points_ci95=interval)


def _find(row: Row, links: "Mapping[tuple[str, int], BrokenLink]") -> _Link:
    link = links.get((row.sample_id, row.epoch))
    if link is not None:
        return link.kind, link.name
    return "error", row.error_class or NOT_RUN


def summarise_critics(counts: "Mapping[str, CriticCount]", incomplete: bool) -> dict[str, CriticNumbers]:
    """Return the numbers of each critic by name."""
    return {name: _summarise_critic(counts[name], incomplete) for name in sorted(counts)}


def _summarise_critic(count: "CriticCount", incomplete: bool) -> CriticNumbers:
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


def _sum(reviews: "Sequence[SampleReviews]", name: str) -> int:
    return sum(getattr(each, name) for each in reviews)


def _share(tallies: Sequence[Tally]) -> tuple[float | None, Interval | None]:
    counted = [each for each in tallies if each[1]]
    total = sum(n for _, n in counted)
    return (sum(hits for hits, _ in counted) / total if total else None), compute_clustered_interval(counted)
