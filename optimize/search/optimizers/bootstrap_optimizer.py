"""Bootstrap: uses the agents' own steps in right answers to training questions as worked examples (demos).

DSPy's BootstrapFewShotWithRandomSearch (Khattab et al. 2023, arXiv 2310.03714). The instructions stay as they are;
each candidate is one draw of demos for all tuned agents, scored on all validation questions.

    BootstrapOptimizer(max_demos=3).search(student, objective, context, report)
"""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimize.search.optimizer import ReportProposal, SearchContext, SearchCost, SearchOutcome, check_settings

if TYPE_CHECKING:
    from optimize.search.student import Objective, Student

_NOT_SHUFFLED = -1  # DSPy's "seed" of the first draw; the next ones are 0, 1, …


@dataclass
class BootstrapOptimizer:
    """The fields are the keys of `conf/optimizer/bootstrap.yaml`."""

    name: str = "bootstrap"
    max_demos: int = 3
    candidates: int = 8
    needs_reflection: bool = False

    def check(self) -> None:
        check_settings(self, {"max_demos": 1, "candidates": 1})

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Add the parent on validation, its answers to the training questions, and each candidate on validation."""
        return SearchCost(min(max_metric_calls, n_val + n_train + self.candidates * n_val), 0)

    def search(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        """Draw candidates and score them."""
        import dspy

        from optimize.search.dspy_compat import observe_draws, to_examples
        from optimize.search.optimizers.scored_programs import ScoredPrograms

        train, val = to_examples(objective.train_ids), to_examples(objective.val_ids)
        random.Random(context.seed).shuffle(train)  # DSPy's own draws always have the same seeds
        draws = range(_NOT_SHUFFLED, self.candidates - 1)
        programs = ScoredPrograms(student, objective, context, report, self.name)

        def compile_draws() -> None:
            optimizer = dspy.BootstrapFewShotWithRandomSearch(
                metric=objective,
                metric_threshold=1.0,
                max_bootstrapped_demos=self.max_demos,
                max_labeled_demos=0,  # a label would be the target
                num_candidate_programs=self.candidates - 1,
                num_threads=context.concurrency,
                max_errors=10**9,
            )
            with observe_draws(programs.report_program):
                optimizer.compile(student.copy_for_demos(), trainset=train, valset=val, restrict=draws)

        programs.search(compile_draws)
        return SearchOutcome()
