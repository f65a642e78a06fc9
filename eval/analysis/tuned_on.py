"""Samples of a run that its prompts were tuned on: their score says little about any other sample.

used = read_tuning_use(store.read_info())      # None: nothing is known
used.describe_warning(80)      # "40 of 80 questions were used to tune owned (20 for training, …"
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from eval.runs.run_info import RunInfo
from mas.prompt_sets.provenance import TUNED_ON_FILE
from mas.runtime.text import format_count


@dataclass(frozen=True)
class UsedToTune:
    """Ids of the samples. A training sample that was also used for validation counts as a training sample."""

    prompts: str  # name of the set
    learnt_from: frozenset[str]  # training samples
    picked_by: frozenset[str]  # validation samples
    edited: tuple[str, ...] = ()  # sets whose tuned_on.json is not the published one: more samples may be affected

    @property
    def ids(self) -> frozenset[str]:
        return self.learnt_from | self.picked_by

    def among(self, ids: Collection[str]) -> "UsedToTune":
        """Return the same for some samples alone."""
        chosen = frozenset(ids)
        return replace(self, learnt_from=self.learnt_from & chosen, picked_by=self.picked_by & chosen)

    @property
    def description(self) -> str:
        """`owned (20 for training, 20 for validation)`."""
        counts = ((len(self.learnt_from), "training"), (len(self.picked_by), "validation"))
        return f"{self.prompts} ({', '.join(f'{count} for {role}' for count, role in counts if count)})"

    def describe_warning(self, n_questions: int, n_unscored: int = 0) -> str | None:
        """Return the warning to print before the run starts; None if there is none.

        Args:
            n_questions: with a target; the score of the others cannot be inflated.
            n_unscored: without one.
        """
        use = describe_use(self.prompts, len(self.learnt_from), len(self.picked_by), n_questions, n_unscored)
        inflated = f"{use}, so the score is inflated there; that of the others is reported separately"
        return "; ".join(filter(None, [inflated if self.ids else None, describe_unknown(self.edited)])) or None


def describe_use(prompts: str, learnt_from: int, picked_by: int, n_all: int, n_unscored: int) -> str:
    """Return how many of the samples with a target (`n_all`) a prompt set was tuned on, for training and validation."""
    n, gold = learnt_from + picked_by, " with a gold answer" if n_unscored else ""
    verb = "were" if n > 1 else "was"
    use = f"{n or 'none'} of {format_count(n_all, 'question')}{gold} {verb} used to tune {prompts}"
    return f"{use} ({learnt_from} for training, {picked_by} for validation)" if n else use


def describe_unknown(edited: Collection[str]) -> str | None:
    """Return the sentence about prompt sets whose tuned_on.json was edited; None if there are none."""
    if not edited:
        return None
    they = "it was" if len(edited) == 1 else "they were"
    return (
        f"{TUNED_ON_FILE} of {' and '.join(edited)} was edited or removed: which questions {they} tuned on is not known"
    )


def read_tuning_use(info: RunInfo) -> UsedToTune | None:
    """Return the same for reports; None if nothing is known of the run's prompts."""
    if (use := info.tuning_use) is None:
        return None
    edited = tuple(dict.fromkeys(use.edited.values()))
    return UsedToTune(use.prompts, frozenset(use.learnt_from), frozenset(use.picked_by), edited)
