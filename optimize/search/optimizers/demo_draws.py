"""The draws of DSPy's random search over demos, each reported as a proposal once it is scored.

draws = DemoDraws(student, objective, context, report)
draws.score_parent()
with observe_draws(draws.report_draw):
    dspy.BootstrapFewShotWithRandomSearch(…).compile(…)
"""

from statistics import fmean

import dspy

from mas.prompt_sets.prompt_set import PromptSet, digest
from optimize.search.budget import Spend
from optimize.search.candidate import PARENT, Candidate, Decision, Proposal
from optimize.search.dspy_compat import Scored, to_examples
from optimize.search.optimizer import ReportProposal, SearchContext
from optimize.search.student import Objective, Student


class SearchOverError(Exception):
    """The search is over: no more answers are possible, so further draws are useless."""


class DemoDraws:
    """The draws of one search. Used in the thread of the search."""

    def __init__(self, student: Student, objective: Objective, context: SearchContext, report: ReportProposal) -> None:
        self._student, self._objective, self._context, self._report = student, objective, context, report
        self._parent, self._ledger = student.initial_prompts, student.trials.ledger
        self._seen = {digest(student.prompts)}
        self._best_score, self._spend_before = 0.0, Spend()

    def score_parent(self) -> None:
        """Score the parent on the validation questions.

        Raises:
            SearchOverError: no more answers are possible.
        """
        evaluate = dspy.Evaluate(
            devset=to_examples(self._objective.val_ids),
            metric=self._objective,
            num_threads=self._context.concurrency,
            max_errors=10**9,
        )
        self._best_score = fmean(score for _, _, score in evaluate(self._student).results)
        self._spend_before = self._ledger.spend()
        self._check_over()

    def report_draw(self, program: dspy.Module, results: Scored) -> None:
        """Report a scored draw, unless its prompts were seen before or nothing was answered.

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
        spend, number = self._ledger.spend(), len(self._seen) - 1
        changed = tuple(agent for agent in prompts.texts if prompts.demos.get(agent) != self._parent.demos.get(agent))
        candidate = Candidate(f"c{number:03}", prompts, (PARENT,), changed, "bootstrap")
        share = spend - self._spend_before
        self._report(Proposal(candidate, decision, reason, iteration=number, val_score=score, spend=share))
        self._spend_before = spend

    def _check_over(self) -> None:
        if self._context.get_stop_reason():
            raise SearchOverError
