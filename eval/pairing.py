"""Two runs' answers to the same questions, side by side, or a sentence why they cannot be.

first, second = answers_of(store), answers_of(other)
obstacle(first, second)        # None, or "their scorers differ"
pairs(first, second)           # one eval.paired_tests.Pair for each question with a gold answer
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from eval.paired_tests import Pair
from eval.store import RunStore


@dataclass(frozen=True)
class Answers:
    """What counts of a run when it is compared."""

    facts: Mapping[str, str]  # what must agree → its value
    scores: Mapping[str, tuple[float, ...]]  # question with a gold answer → 1 right, 0 wrong or in error, by epoch
    n_missing: int  # answers that the run has not come to

    @property
    def question_ids(self) -> frozenset[str]:
        return frozenset(self.scores)


def answers_of(store: RunStore) -> Answers:
    """
    Raises:
        StoreError: the store cannot be read.
    """
    meta = store.meta()
    epochs = int(meta.get("epochs", 1))
    asked = {planned.id: [0.0] * epochs for planned in store.planned() if planned.target is not None}
    for record in store.final_records():
        if record.example_id in asked and record.epoch <= epochs:
            asked[record.example_id][record.epoch - 1] = float(record.correct)
    scorer = (yaml.safe_load(meta.get("config", "")) or {}).get("scorer")
    return Answers(
        facts={
            "scorers": json.dumps(scorer, sort_keys=True),
            "dataset versions": meta.get("task_version", ""),
            "questions, gold answers or attached files": meta.get("dataset_sha256", ""),
        },
        scores={example_id: tuple(scores) for example_id, scores in asked.items()},
        n_missing=sum(len(store.missing(epoch)) for epoch in range(1, epochs + 1)),
    )


def obstacle(first: Answers, second: Answers) -> str | None:
    """Why the two cannot be compared; None: they can."""
    if first.question_ids != second.question_ids:
        both, either = first.question_ids & second.question_ids, first.question_ids | second.question_ids
        return f"their questions differ: {len(both)} of {len(either)} are in both"
    for name, value in first.facts.items():
        if second.facts.get(name) != value:
            return f"their {name} differ"
    if missing := [each.n_missing for each in (first, second) if each.n_missing]:
        return f"{sum(missing)} answers are still missing"
    return None if first.scores else "no question has a gold answer"


def pairs(first: Answers, second: Answers) -> list[Pair]:
    """Of two runs without an obstacle."""
    return [Pair(scores, second.scores[example_id]) for example_id, scores in first.scores.items()]
