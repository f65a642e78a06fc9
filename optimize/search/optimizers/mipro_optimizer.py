"""MIPROv2: proposes several texts and sets of demos for each agent, and searches for their best combination.

DSPy's MIPROv2 (Opsahl-Ong et al. 2024, arXiv 2406.11695); optuna's TPE sampler chooses the combinations, each of which
is scored on all validation questions. The texts are written from the agent's present text, a tip, and some of the
training questions: no answer, no target and no feedback is part of a request for a text.

    MiproOptimizer(candidates=6).search(student, objective, context, report)      # SearchOutcome(reflections=15, …)
"""

import functools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimize.search.optimizer import ReportProposal, SearchContext, SearchCost, SearchOutcome, check_settings

if TYPE_CHECKING:
    from optimize.search.student import Objective, Student

LEAST = {"candidates": 2, "trials": 1, "max_demos": 0, "max_instruction_chars": 1}  # candidates: one is the agent's own


@dataclass
class MiproOptimizer:
    """The fields are the keys of `conf/optimizer/mipro.yaml`."""

    name: str = "mipro"
    candidates: int = 6
    trials: int = 30
    max_demos: int = 3
    max_instruction_chars: int | None = 8000
    needs_reflection: bool = True

    def check(self) -> None:
        check_settings(self, LEAST)

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Add the parent and each trial on validation, and the answers to training questions that demos come from."""
        answers = n_val + (n_train if self.max_demos else 0) + self.trials * n_val
        return SearchCost(min(max_metric_calls, answers), n_agents * (self.candidates - 1))

    def search(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        """Search. Reflection requests are logged and paid in the caller's sample context."""
        import dspy

        from optimize.search.dspy_compat import adapt_mipro, to_examples
        from optimize.search.optimizers.prompt_rewriter import InstructionDrafts, ReflectionRequests
        from optimize.search.optimizers.scored_programs import ScoredPrograms

        train_ids = list(objective.train_ids)
        random.Random(context.seed).shuffle(train_ids)
        requests = ReflectionRequests(context.get_stop_reason)
        questions = [objective.samples[each] for each in train_ids]
        create_drafts = functools.partial(
            InstructionDrafts, requests, questions, objective.labels.names, self.max_instruction_chars
        )
        programs = ScoredPrograms(student, objective, context, report, self.name)

        def compile_student() -> None:
            optimizer = dspy.MIPROv2(
                metric=objective,
                prompt_model=context.reflection_lm,
                task_model=context.reflection_lm,
                auto=None,
                num_candidates=self.candidates,
                max_bootstrapped_demos=self.max_demos,
                max_labeled_demos=0,  # a label would be the target
                metric_threshold=1.0,
                num_threads=context.concurrency,
                max_errors=10**9,
                track_stats=False,
                seed=context.seed,
            )
            optimizer.task_model = dspy.settings.lm  # agents have models of their own, or the user's default
            with adapt_mipro(create_drafts, programs.report_program, has_demos=self.max_demos > 0):
                optimizer.compile(
                    student.copy_for_demos(),
                    trainset=to_examples(train_ids),
                    valset=to_examples(objective.val_ids),
                    num_trials=self.trials,
                    minibatch=False,
                    data_aware_proposer=False,  # of `trainset`; the drafts have the questions
                    program_aware_proposer=False,  # the source of a student says nothing about the system
                    fewshot_aware_proposer=False,  # the agents' right answers are the targets
                )

        programs.search(compile_student)
        return requests.finish(student.trials)
