"""Which questions of a run its prompts were tuned on: their score says little of any other question.

use = find_tuning_use([prompts], questions, files)    # for RunInfo.used_to_tune
used = read_tuning_use(store.read_info())             # None: nothing is known of these prompts
used.warning(80)            # "40 of the 80 questions were used to tune owned (20 for training, …"
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from eval.runs.run_info import RunInfo
from mas.prompt_sets.tuned_on import TUNED_ON_FILE


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
        """`owned (20 for training, 20 for validation)`."""
        counts = ((len(self.learnt_from), "for training"), (len(self.picked_by), "for validation"))
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
        return f"{used} of the {these} {were} used to tune {self.told}: {flatters}; on {rest} it is reported separately"


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


def read_tuning_use(info: RunInfo) -> UsedToTune | None:
    """Return the same for reports; None if nothing is known of the run's prompts."""
    if (use := info.used_to_tune) is None:
        return None
    edited = tuple(dict.fromkeys(use.edited.values()))
    return UsedToTune(use.prompts, frozenset(use.learnt_from), frozenset(use.picked_by), edited)
