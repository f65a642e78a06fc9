"""What an optimiser gets, and what it owes: the contract between `optimize/run.py` and `optimize/optimizers/`.

An optimiser is a dataclass whose fields are the keys of its file in `conf/optimizer/`; it imports nothing heavy before
`search`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from optimize.search.candidate import Candidate, Proposal


@dataclass(frozen=True)
class Search:
    """One search, ready to go. All of it is deterministic but the model's replies, which a resumed search replays."""

    parent: Candidate
    student: Any  # optimize.search.student.Student: a dspy.Module that answers by sample id and never raises
    metric: Callable[..., Any]  # optimize.search.objective.Objective, the five-argument metric that dspy.GEPA wants
    train_ids: Sequence[str]
    val_ids: Sequence[str]
    reflection_lm: Any  # dspy.LM
    seed: int
    threads: int  # answers at once
    max_metric_calls: int  # that are left for the search itself
    stopped: Callable[[], str | None]  # why nothing more is asked (budget, Ctrl-C); None: the search may go on
    proposed: Callable[[Proposal], None]  # to be called once for each proposal, as soon as its fate is known


@dataclass(frozen=True)
class SearchCost:
    """What a search will take at most, for the estimate."""

    metric_calls: int
    reflection_calls: int


@dataclass(frozen=True)
class SearchOutcome:
    """What a search says about itself at its end."""

    reflections: int = 0  # requests for a better prompt
    unparsable: int = 0  # of these: replies that no prompt could be read from


class Optimizer(Protocol):
    """One way to look for better prompts."""

    name: str
    needs_reflection: bool  # whether it asks a reflection model at all

    def check(self) -> None:
        """
        Raises:
            UserError: a setting makes no sense.
        """
        ...

    def cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost: ...

    def search(self, search: Search) -> SearchOutcome:
        """Look until the budget of metric calls is used, `search.stopped()` says why, or nothing is left to try."""
        ...
