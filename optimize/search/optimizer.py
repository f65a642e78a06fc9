"""Contract of an optimizer: a search that proposes candidates, and the decision on each of them.

An optimizer is a dataclass whose fields are the keys of its file in `conf/optimizer/`. It imports nothing heavy before
`search`, so that a configuration is checked in a moment.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from eval.config.evaluation import require
from eval.runs.candidates import PARENT as PARENT  # id of the prompt set that the search starts from
from mas.prompt_sets.prompt_set import PromptSet

if TYPE_CHECKING:
    import dspy

    from optimize.search.student import Objective, Student

Decision = Literal["accepted", "rejected", "cut_off"]


@dataclass(frozen=True)
class Proposal:
    """A candidate, which is a proposed prompt set, and the search's decision on it."""

    candidate_id: str  # c001, c002, …: ids count the proposals of a search
    prompts: PromptSet | None = None  # texts and demos of all agents; None: they are in the run's store
    decision: Decision = "cut_off"  # cut_off: a budget or Ctrl-C interrupted its scoring, so it has no score
    reason: str = ""  # half a sentence
    parent_ids: Sequence[str] = (PARENT,)
    agents: Sequence[str] = ()  # agents whose text or demos differ from the first parent's
    origin: str = ""  # reflection | merge | bootstrap | mipro
    val_score: float | None = None  # mean over the validation questions; None: not scored on all of them

    def describe(self) -> str:
        """Return the agents that it changes, or the candidates that it combines."""
        if self.origin == "merge" or not self.agents:
            return f"{self.origin or 'copy'} of {' and '.join(self.parent_ids) or PARENT}"
        return ", ".join(self.agents)


class SearchOverError(BaseException):
    """No more answers are possible. Not an `Exception`, which DSPy and optuna would log, and DSPy swallow."""


@dataclass(frozen=True)
class SearchTask:
    """What a search works on, its limits and resources."""

    student: "Student"  # the program with the prompts to start from
    objective: "Objective"  # the metric, with training and validation questions
    metric_calls: int  # scored answers, the parent's on validation included
    concurrency: int  # answers at once
    seed: int
    reflection_lm: "dspy.BaseLM"
    get_stop_reason: Callable[[], str | None]  # why no more answers are possible (budget, Ctrl-C); None: go on
    report: Callable[[Proposal], None]  # called once for each proposal, as soon as it is decided: a kill loses none

    def describe_break(self) -> str:
        """Return why the scoring of a candidate was broken off."""
        return self.get_stop_reason() or "its scoring was broken off"

    def propose(self, prompts: PromptSet, base: PromptSet, **about: Any) -> None:
        """Report a proposal with the agents that differ from `base`."""
        agents = tuple(
            agent
            for agent in self.student.agents
            if (prompts.texts[agent], prompts.demos.get(agent)) != (base.texts[agent], base.demos.get(agent))
        )
        self.report(Proposal(prompts=prompts, agents=agents, **about))


class SearchCost(NamedTuple):
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
        """Check the settings; raise UserError if one is out of range."""
        ...

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Return the upper limits for so many training questions, validation questions and tuned agents."""
        ...

    def search(self, task: SearchTask) -> SearchOutcome:
        """Report candidates until the budget is used, a stop is requested, or nothing is left to try.

        Exception: what `task.report` raised, or a defect of the harness.
        """
        ...


def check_settings(optimizer: Optimizer, least: Mapping[str, int]) -> None:
    """Check that settings are at least these numbers, or raise a UserError; null means no limit."""
    for option, minimum in least.items():
        value, expected = getattr(optimizer, option), f"a whole number from {minimum} on"
        require(value is None or value >= minimum, f"optimizer.{option}", value, expected)
