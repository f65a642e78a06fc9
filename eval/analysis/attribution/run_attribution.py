"""Attribution over a whole run: the first broken link of each answer that lost points, and its critics' reviews.

    found = attribute_run(store)
    found.links["q17", 1].name                      # "researcher"
    found.critics["critic_expert"].n_reviews

Records are read one at a time; of a run without critics only the answers that lost points are parsed.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eval.analysis.attribution import CriticNumbers
from eval.runs.record import Record
from eval.runs.store import RunStore
from eval.scorers.labels import LabelSet

if TYPE_CHECKING:
    from eval.analysis.attribution.broken_link import BrokenLink

Key = tuple[str, int]  # sample id, epoch


@dataclass(frozen=True)
class RunAttribution:
    """First broken links and critics' reviews of a run."""

    links: "dict[Key, BrokenLink]"
    critics: dict[str, CriticNumbers] = field(default_factory=dict)  # by name


def attribute_run(store: RunStore) -> RunAttribution:
    """Return the links and reviews of a run's last attempts; raise StoreError if the store cannot be read."""
    info, tally = store.read_info(), None
    labels = LabelSet(tuple(info.task.labels))
    lost = {
        (each.sample_id, each.epoch)
        for each in store.final_records()
        if each.error is not None or (each.scored and not each.correct)
    }
    if info.critics:
        from eval.analysis.attribution.critics import CriticTally

        tally = CriticTally(info.critics, labels)
    elif not lost:
        return RunAttribution({})
    from eval.analysis.attribution.broken_link import find_broken_link

    found = RunAttribution({}, tally.numbers if tally else {})
    for record in read_with_steps(store, lambda key: tally is not None or key in lost):
        if (link := find_broken_link(record, labels)) is not None:
            found.links[record.sample_id, record.epoch] = link
        if tally:
            tally.add(record)
    return found


def read_with_steps(store: RunStore, wants: Callable[[Key], bool]) -> Iterator[Record]:
    """Yield the last attempts that are wanted; no other record is parsed, for each may have megabytes."""
    last = store.read_last_attempts()
    for ids, line in zip(store.correlation_ids(), store.lines(), strict=False):  # both in the order of writing
        key = (ids["task_id"], ids["epoch"])
        if last.get(key, (0, None))[0] == ids["attempt"] and wants(key):
            yield Record.from_dict(json.loads(line))
