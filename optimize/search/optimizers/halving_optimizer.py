"""Halving of changes: many small changes of all prompts compete in mixtures, and those that look harmful are dropped.

A round begins with the prompts that look best so far. They answer some training questions; each wrong answer is
attributed to an agent, and the reflection model rewrites agents' prompts in proportion to the answers lost with them.
The rewritten prompts are divided into their changes (`halving_changes`). Versions with different changes of all agents
at once answer a few questions each, so that each answer is evidence on many changes; about half of
the changes look harmful then, and are hardly drawn again. What looks helpful in the end is scored on all validation
questions, and is the round's proposal.

    HalvingOptimizer(proposals=8).search(student, objective, context, report)      # SearchOutcome(reflections=32, …)
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimize.search.optimizer import ReportProposal, SearchContext, SearchCost, SearchOutcome, check_settings

if TYPE_CHECKING:
    from optimize.search.student import Objective, Student

LEAST = {
    **{"stages": 1, "batch": 1, "proposals": 1, "examples": 1, "mixtures": 2, "questions": 1, "patience": 1},
    "max_instruction_chars": 1,
}


@dataclass
class HalvingOptimizer:
    """The fields are the keys of `conf/optimizer/halving.yaml`."""

    name: str = "halving"
    stages: int = 2
    batch: int = 12
    proposals: int = 3
    examples: int = 4
    mixtures: int = 16
    questions: int = 3
    patience: int = 3
    max_instruction_chars: int | None = 8000
    needs_reflection: bool = True

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: a setting is out of range.
        """
        check_settings(self, LEAST)

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Assume that the last round is as short as a round may be."""
        batch, questions = min(self.batch, n_train), min(self.questions, n_train)
        answers = self.stages * (batch + self.mixtures * questions) + n_val
        rounds = math.ceil(max(1, max_metric_calls - n_val) / answers) + 1
        return SearchCost(max_metric_calls, rounds * self.stages * self.proposals * n_agents)

    def search(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        """Search. Reflection requests are logged and paid in the caller's sample context.

        Raises:
            Exception: what `report` raised, or a defect of the harness.
        """
        from optimize.search.dspy_compat import run_isolated
        from optimize.search.optimizers.halving_rounds import HalvingRounds
        from optimize.search.optimizers.prompt_rewriter import PromptRewriter

        rewriter = PromptRewriter(
            student.initial_prompts, context.get_stop_reason, self.max_instruction_chars, objective.labels.names
        )
        run_isolated(HalvingRounds(self, student, objective, context, report, rewriter).run)
        return rewriter.finish(student.trials)
