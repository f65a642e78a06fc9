"""The programs that an optimizer of DSPy scores on all validation questions, each reported as a proposal.

programs = ScoredPrograms(student, objective, context, report, "bootstrap")
programs.search(compile_draws)       # it calls `programs.report_program` for each scored program
"""

from collections.abc import Callable
from contextlib import suppress
from statistics import fmean

import dspy

from eval.execution.budget import Spend
from mas.prompt_sets.prompt_set import PromptSet, digest
from optimize.search.dspy_compat import Scored, run_isolated
from optimize.search.optimizer import Decision, Proposal, ReportProposal, SearchContext
from optimize.search.student import Objective, Student


class SearchOverError(BaseException):
    """No more answers are possible. Not an `Exception`, which DSPy and optuna would log, and DSPy swallow."""


class ScoredPrograms:
    """The programs of one search. Used in the thread of the search."""

    def __init__(
        self, student: Student, objective: Objective, context: SearchContext, report: ReportProposal, origin: str
    ) -> None:
        """Begin with the parent; `origin` is that of the candidates."""
        self._student, self._objective, self._context, self._report = student, objective, context, report
        self._origin = origin
        self._parent, self._budget = student.initial_prompts, student.trials.budget
        self._seen = {digest(student.prompts)}
        self._best_score, self._spend_before = 0.0, Spend()

    def search(self, compile_student: Callable[[], object]) -> None:
        """Score the parent on the validation questions, and let DSPy search until no more answers are possible."""

        def score_and_compile() -> None:
            with suppress(SearchOverError):
                trials = self._student.answer_all(self._objective.val_ids)
                self._best_score = fmean(self._objective.judge(trial).score for trial in trials)
                self._spend_before = self._budget.spend()
                self._check_over()
                compile_student()

        run_isolated(score_and_compile)
        self._student.trials.check()

    def report_program(self, program: dspy.Module, results: Scored) -> None:
        """Report a scored program, unless its prompts were seen before or nothing was answered.

        Raises:
            SearchOverError: no more answers are possible.
        """
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
        spend, number, before = self._budget.spend(), len(self._seen) - 1, self._parent
        changed = tuple(
            agent
            for agent, text in prompts.texts.items()
            if text != before.texts[agent] or prompts.demos.get(agent) != before.demos.get(agent)
        )
        self._report(
            Proposal(
                f"c{number:03}",
                prompts,
                decision,
                reason,
                agents=changed,
                origin=self._origin,
                val_score=score if is_complete else None,
                spend=(spend - self._spend_before).to_dict(),
            )
        )
        self._spend_before = spend

    def _check_over(self) -> None:
        if self._context.get_stop_reason():
            raise SearchOverError
