"""Which questions of a run its prompts were tuned on: their score says little of any other question.

facts = tuned_facts([prompts], questions, files)      # for the store's meta
used = used_to_tune(facts)                            # None: of these prompts nothing is known
used.warning(80)            # "40 of these 80 questions were used to tune owned (20 learnt from, 20 picked by): its …"
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from eval.benchmarks.fingerprint import compute_fingerprint
from eval.runs.folder import KEPT
from eval.runs.record import PlannedQuestion
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.prompt_sets.tuned_on import TUNED_ON_FILE, TunedOn

USED_TO_TUNE = "used_to_tune"  # in a store's meta: JSON


@dataclass(frozen=True)
class UsedToTune:
    """Ids of the run's questions; one that was learnt from may also have been picked by, and counts as the former."""

    prompts: str  # name of the set
    learnt_from: frozenset[str]
    picked_by: frozenset[str]
    edited: tuple[str, ...] = ()  # sets whose marks are not those that were published: there may be more such questions

    @property
    def ids(self) -> frozenset[str]:
        return self.learnt_from | self.picked_by

    def among(self, ids: Collection[str]) -> "UsedToTune":
        there = frozenset(ids)
        return replace(self, learnt_from=self.learnt_from & there, picked_by=self.picked_by & there)

    @property
    def told(self) -> str:
        """`owned (20 learnt from, 20 picked by)`."""
        counts = ((len(self.learnt_from), "learnt from"), (len(self.picked_by), "picked by"))
        return f"{self.prompts} ({', '.join(f'{count} {how}' for count, how in counts if count)})"

    def warning(self, n_questions: int, n_unscored: int = 0) -> str | None:
        """What is to be said before they are asked; None: nothing.

        Args:
            n_questions: with a gold answer; of the others no score can flatter.
            n_unscored: without one.
        """
        used, left = len(self.ids), n_questions - len(self.ids)
        parts = [self._flatters(used, left, n_unscored) if used else None, describe_unknown(self.edited)]
        return "; ".join(part for part in parts if part) or None if n_questions else None

    def _flatters(self, used: int, left: int, n_unscored: int) -> str:
        these = format_questions(used + left, n_unscored)
        if not left:
            every, them = (f"the one {these} was", "it") if used == 1 else (f"all {these} were", "them")
            return f"{every} used to tune {self.told}: its score on {them} flatters, and no other is scored"
        were = "was" if used == 1 else "were"
        rest = "the other one" if left == 1 else f"the other {left}"
        flatters = "its score on them flatters" if used > 1 else "its score on it flatters"
        return f"{used} of these {these} {were} used to tune {self.told}: {flatters}; on {rest} it is reported beside"


def format_questions(n: int, n_unscored: int) -> str:
    """`12 questions`, or which of them count: `12 questions with a gold answer`; of one only the noun."""
    noun = "question" if n == 1 else f"{n} questions"
    return f"{noun} with a gold answer" if n_unscored else noun


def describe_unknown(edited: Collection[str]) -> str | None:
    """
    Args:
        edited: names of sets.
    """
    if not edited:
        return None
    which = "which questions it was tuned on" if len(edited) == 1 else "which questions they were tuned on"
    return f"{TUNED_ON_FILE} of {' and '.join(edited)} was edited or removed: {which} is not known"


def tuned_facts(
    sets: Iterable[PromptSet],
    questions: Iterable[PlannedQuestion],
    files: Mapping[str, str],
    before: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What a run's store keeps of it.

    Args:
        sets: that the run was made with; more than one if it was resumed with others.
        questions: of the run.
        files: id → SHA-256 of the attachment.
        before: the store's meta as earlier sessions left it.
    """
    sets = list(sets)
    edited = _edited(before or {})
    for each in sets:
        if TUNED_ON_FILE in each.edited:
            edited[digest(each)] = each.name
        elif TUNED_ON_FILE in each.provenance.get("checksums", {}):
            edited.pop(digest(each), None)  # restored; of a copy without provenance nothing can be said
    marks = {each.id: compute_fingerprint(each.question, files.get(each.id)) for each in questions}
    names, found = [], None
    for each in sets:
        if each.tuned_on is not None:
            names.append(each.name)
            found = each.tuned_on | found
    if found is None and not edited:
        return {USED_TO_TUNE: "null"}
    names, found = names or list(edited.values()), found or TunedOn(frozenset(), frozenset())
    learnt_from = [id for id, mark in marks.items() if mark in found.learnt_from]
    picked_by = [id for id, mark in marks.items() if mark in found.picked_by - found.learnt_from]
    told = {"prompts": " and ".join(dict.fromkeys(names)), "learnt_from": learnt_from, "picked_by": picked_by}
    return {USED_TO_TUNE: json.dumps({**told, "edited": edited})}


def used_to_tune(meta: Mapping[str, str]) -> UsedToTune | None:
    """
    Args:
        meta: of a run's store; an older one says nothing of it.
    """
    told, edited = _told(meta), tuple(dict.fromkeys(_edited(meta).values()))
    if told is None:
        return UsedToTune(" and ".join(edited), frozenset(), frozenset(), edited) if edited else None
    return UsedToTune(told["prompts"], frozenset(told["learnt_from"]), frozenset(told["picked_by"]), edited)


def _told(meta: Mapping[str, str]) -> dict[str, Any] | None:
    told: dict[str, Any] | None = json.loads(meta.get(USED_TO_TUNE, "null"))
    return told


def _edited(meta: Mapping[str, str]) -> dict[str, str]:
    """Digest → name of each set whose marks were edited or removed."""
    told = _told(meta)
    if told is not None and "edited" in told:
        return dict(told["edited"])
    if TUNED_ON_FILE not in json.loads(meta.get("prompts_edited", "[]")):
        return {}
    names = list(json.loads(meta.get(KEPT, "{}")).values())  # a run that is older than this note: the last used last
    return {meta.get("prompts_sha256", ""): names[-1] if names else "its prompts"}
