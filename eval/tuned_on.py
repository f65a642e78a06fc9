"""Which questions of a run its prompts were tuned on: their score says little of any other question.

facts = tuned_facts([prompts], questions, files)      # for the store's meta
used = used_to_tune(facts)                            # None: of these prompts nothing is known
used.warning(80)            # "40 of these 80 questions were used to tune owned (20 learnt from, 20 picked by): its …"
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eval.question_mark import question_mark
from eval.run_folder.planned import PlannedQuestion
from mas.prompts import PromptSet

USED_TO_TUNE = "used_to_tune"  # in a store's meta: JSON


@dataclass(frozen=True)
class UsedToTune:
    """Ids of the run's questions; one that was learnt from may also have been picked by, and counts as the former."""

    prompts: str  # name of the set
    learnt_from: frozenset[str]
    picked_by: frozenset[str]

    @property
    def ids(self) -> frozenset[str]:
        return self.learnt_from | self.picked_by

    def among(self, ids: Collection[str]) -> "UsedToTune":
        there = frozenset(ids)
        return UsedToTune(self.prompts, self.learnt_from & there, self.picked_by & there)

    @property
    def told(self) -> str:
        """`owned (20 learnt from, 20 picked by)`."""
        counts = ((len(self.learnt_from), "learnt from"), (len(self.picked_by), "picked by"))
        return f"{self.prompts} ({', '.join(f'{count} {how}' for count, how in counts if count)})"

    def warning(self, n_questions: int) -> str | None:
        """What is to be said before they are asked; None: none of them was used."""
        used, left = len(self.ids), n_questions - len(self.ids)
        if not used:
            return None
        if not left:
            every = "this question was" if used == 1 else f"all {used} questions were"
            return f"{every} used to tune {self.told}: its score on them flatters, and no other question is asked"
        were = "was" if used == 1 else "were"
        rest = "the other one" if left == 1 else f"the other {left}"
        flatters = "its score on them flatters" if used > 1 else "its score on it flatters"
        return (
            f"{used} of these {n_questions} questions {were} used to tune {self.told}: {flatters}; on {rest} it is "
            "reported beside"
        )


def tuned_facts(
    sets: Iterable[PromptSet], questions: Iterable[PlannedQuestion], files: Mapping[str, str]
) -> dict[str, str]:
    """What a run's store keeps of it.

    Args:
        sets: that the run was made with; more than one if it was resumed with others.
        questions: of the run.
        files: id → SHA-256 of the attachment.
    """
    marks = {each.id: question_mark(each.question, files.get(each.id)) for each in questions}
    names, found = [], None
    for each in sets:
        if each.tuned_on is not None:
            names.append(each.name)
            found = each.tuned_on | found
    if found is None:
        return {USED_TO_TUNE: "null"}
    learnt_from = [id for id, mark in marks.items() if mark in found.learnt_from]
    picked_by = [id for id, mark in marks.items() if mark in found.picked_by - found.learnt_from]
    told = {"prompts": " and ".join(dict.fromkeys(names)), "learnt_from": learnt_from, "picked_by": picked_by}
    return {USED_TO_TUNE: json.dumps(told)}


def used_to_tune(meta: Mapping[str, str]) -> UsedToTune | None:
    """
    Args:
        meta: of a run's store; an older one says nothing of it.
    """
    told: dict[str, Any] | None = json.loads(meta.get(USED_TO_TUNE, "null"))
    if told is None:
        return None
    return UsedToTune(told["prompts"], frozenset(told["learnt_from"]), frozenset(told["picked_by"]))
