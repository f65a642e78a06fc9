"""Bootstrap: uses the agents' own steps in right answers to training questions as worked examples (demos).

DSPy's BootstrapFewShotWithRandomSearch (Khattab et al. 2023, arXiv 2310.03714). The instructions stay as they are;
each candidate is one draw of demos for all tuned agents, scored on all validation questions.

    BootstrapOptimizer(max_demos=3).search(student, objective, context, report)
"""

import random
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from mas.prompt_sets.prompt_set import PromptSet, digest
from optimize.search.optimizer import (
    Decision,
    Proposal,
    ReportProposal,
    SearchContext,
    SearchCost,
    SearchOutcome,
    check_settings,
)

if TYPE_CHECKING:
    import dspy

    from optimize.search.dspy_compat import Scored
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
        """Check the settings.

        Raises:
            UserError: a setting is out of range.
        """
        check_settings(self, {"max_demos": 1, "candidates": 1})

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Add the parent on validation, its answers to the training questions, and each candidate on validation."""
        return SearchCost(min(max_metric_calls, n_val + n_train + self.candidates * n_val), 0)

    def search(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        """Draw candidates and score them.

        Raises:
            Exception: what `report` raised, or a defect of the harness.
        """
        import dspy

        from optimize.search.dspy_compat import observe_draws, run_isolated, to_examples

        train, val = to_examples(objective.train_ids), to_examples(objective.val_ids)
        random.Random(context.seed).shuffle(train)  # DSPy's own draws always have the same seeds
        draws = _Draws(student, context, report)

        def score_and_compile() -> None:
            optimizer = dspy.BootstrapFewShotWithRandomSearch(
                metric=objective,
                metric_threshold=1.0,
                max_bootstrapped_demos=self.max_demos,
                max_labeled_demos=0,  # a label would be the target
                num_candidate_programs=self.candidates - 1,
                num_threads=context.concurrency,
                max_errors=10**9,
            )
            with suppress(_SearchOverError), observe_draws(draws.report_program):
                draws.score_parent(objective.val_ids)
                restrict = range(_NOT_SHUFFLED, self.candidates - 1)
                optimizer.compile(student.copy_for_demos(), trainset=train, valset=val, restrict=restrict)

        run_isolated(score_and_compile)
        student.trials.check()
        return SearchOutcome()


class _SearchOverError(BaseException):
    """No more answers are possible. Not an `Exception`, which DSPy would log and swallow."""


class _Draws:
    """The programs that DSPy scores on all validation questions, each reported as a proposal."""

    def __init__(self, student: "Student", context: SearchContext, report: ReportProposal) -> None:
        self._student, self._context, self._report = student, context, report
        self._budget = student.trials.budget
        self._seen = {digest(student.prompts)}
        self._best_score, self._spend_before = 0.0, self._budget.spend()

    def score_parent(self, val_ids: "list[str]") -> None:
        """Answer the validation questions, which a candidate must do better on."""
        self._best_score = fmean(trial.record.value for trial in self._student.answer_all(val_ids))
        self._spend_before = self._budget.spend()
        self._check_over()

    def report_program(self, program: "dspy.Module", results: "Scored") -> None:
        """Report a scored program, unless its prompts were seen before or nothing was answered."""
        prompts: PromptSet = program.prompts
        if (found := digest(prompts)) not in self._seen:
            self._seen.add(found)
            completed = [prediction.trial.completed for _, prediction, _ in results]
            if any(completed):
                self._propose(prompts, fmean(score for _, _, score in results), all(completed))
        self._check_over()

    def _propose(self, prompts: PromptSet, score: float, is_complete: bool) -> None:
        decision: Decision = "rejected"
        reason = f"no better than the best so far ({self._best_score:.1%})"
        if not is_complete:
            decision, reason = "cut_off", self._context.get_stop_reason() or "its scoring was broken off"
        elif score > self._best_score:
            decision, reason = "accepted", f"the best so far (before: {self._best_score:.1%})"
            self._best_score = score
        spend, number, before = self._budget.spend(), len(self._seen) - 1, self._student.initial_prompts.demos
        proposal = Proposal(
            f"c{number:03}",
            prompts,
            decision,
            reason,
            agents=tuple(agent for agent in prompts.texts if prompts.demos.get(agent) != before.get(agent)),
            origin="bootstrap",
            iteration=number,
            val_score=score if is_complete else None,
            spend=(spend - self._spend_before).to_dict(),
        )
        self._spend_before = spend
        self._report(proposal)

    def _check_over(self) -> None:
        if self._context.get_stop_reason():
            raise _SearchOverError
