"""Points lost at each link, as a summary shows them.

count_lost_points(rows, links, incomplete=False)[0].points          # 0.121: of 100 points 12.1 were lost there
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from eval.analysis.summary.rows import Row, measure
from eval.analysis.summary.summary import LostPoints
from eval.runs.record import NOT_RUN

if TYPE_CHECKING:
    from eval.analysis.attribution.broken_link import BrokenLink

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
