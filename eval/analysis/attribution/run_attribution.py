"""Attribution over a whole run: the first broken link of each answer that lost points, and its critics' reviews.

    found = attribute_run(store)
    found.links["q17", 1].name                      # "researcher"
    found.critics["critic_expert"].n_reviews

Records are read one at a time. Of a run without critics only the answers that lost points are parsed; of a user's own
program also right ones, which show what its predictors usually do.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from eval.analysis.attribution import CriticNumbers
from eval.runs.record import Record
from eval.runs.store import RunStore
from eval.scorers.labels import LabelSet

if TYPE_CHECKING:
    from eval.analysis.attribution.broken_link import BrokenLink
    from eval.analysis.attribution.predictor_attribution import RightAnswers

MAX_RIGHT_ANSWERS = 1_000  # of a user's own program, from which the habits of its predictors are read

Key = tuple[str, int]  # sample id, epoch


@dataclass(frozen=True)
class RunAttribution:
    """First broken links and critics' reviews of a run."""

    links: "dict[Key, BrokenLink]"
    critics: dict[str, CriticNumbers] = field(default_factory=dict)  # by name


def attribute_run(store: RunStore) -> RunAttribution:
    """Return the links and reviews of a run's last attempts; raise StoreError if the store cannot be read."""
    info = store.read_info()
    labels = LabelSet(tuple(info.task.labels))
    right, lost = set[Key](), set[Key]()
    for each in store.final_records():
        loses = each.error is not None or (each.scored and not each.correct)
        (lost if loses else right).add((each.sample_id, each.epoch))
    has_critics = info.critics != []
    if not lost and not has_critics:
        return RunAttribution({})
    from eval.analysis.attribution.broken_link import find_broken_link

    tally = None
    if has_critics:
        from eval.analysis.attribution.critics import CriticTally

        tally = CriticTally(info.critics, labels)
    found = RunAttribution({}, tally.numbers if tally else {})
    right_answers = _read_right_answers(store, right, labels) if lost else None
    for record in read_with_steps(store, (lost | right if has_critics else lost).__contains__):
        if (link := find_broken_link(record, right_answers, labels)) is not None:
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


def _read_right_answers(store: RunStore, right: set[Key], labels: LabelSet) -> "RightAnswers | None":
    """Return what the predictors of a user's own program do in right answers; None for other systems."""
    from eval.analysis.attribution.agent_steps import AgentSteps, is_own_program
    from eval.analysis.attribution.broken_link import build_matcher

    records = islice(read_with_steps(store, right.__contains__), MAX_RIGHT_ANSWERS)
    first = next(records, None)
    if first is None or not is_own_program(first):
        return None
    from eval.analysis.attribution.predictor_attribution import RightAnswers

    found = RightAnswers()
    for record in chain([first], records):
        if record.scored:
            found.add(record, AgentSteps.of(record), build_matcher(record.target or "", labels))
    return found
