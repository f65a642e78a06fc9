"""Contract of an optimizer: a search that proposes candidates.

An optimizer is a dataclass whose fields are the keys of its file in `conf/optimizer/`. It imports nothing heavy before
`search`, so that a configuration is checked in a moment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eval.config.evaluation import require
from optimize.search.candidate import Proposal

if TYPE_CHECKING:
    import dspy

    from optimize.search.student import Objective, Student

ReportProposal = Callable[[Proposal], None]


@dataclass(frozen=True)
class SearchContext:
    """Limits and resources of one search.

    A search is reproducible except for the model's replies; a resumed search replays those.

    `get_stop_reason` returns why no more answers are possible (budget, Ctrl-C), or None while the search may go on.
    """

    metric_calls: int  # scored answers, the parent's on validation included
    concurrency: int  # answers at once
    seed: int
    reflection_lm: "dspy.BaseLM"
    get_stop_reason: Callable[[], str | None]


@dataclass(frozen=True)
class SearchCost:
    """Upper limits of what a search takes, for the estimate."""

    metric_calls: int
    reflection_calls: int


@dataclass(frozen=True)
class SearchOutcome:
    """Counts that an optimizer reports when its search ends."""

    reflections: int = 0  # requests for a better prompt
    unparsable: int = 0  # replies to them from which no prompt could be read


class Optimizer(Protocol):
    """A method of searching for better prompts."""

    name: str
    needs_reflection: bool  # True: it uses a reflection model

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: a setting is out of range.
        """
        ...

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Return the upper limits for so many training questions, validation questions and tuned agents."""
        ...

    def search(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        """Propose candidates until the budget is used, a stop is requested, or nothing is left to try.

        Args:
            student: the program with the prompts to start from.
            objective: the metric, with training and validation questions.
            context: limits and resources.
            report: receives each proposal once, as soon as it is decided, so that a killed search loses none.
        """
        ...


def check_settings(optimizer: Optimizer, least: Mapping[str, int]) -> None:
    """Check that settings are at least these numbers; null means no limit.

    Raises:
        UserError: a setting is out of range.
    """
    for option, minimum in least.items():
        value, expected = getattr(optimizer, option), f"a whole number from {minimum} on"
        require(value is None or value >= minimum, f"optimizer.{option}", value, expected)
