"""The candidates of DSPy's random search over examples, told of as each one has been scored.

DSPy tells of none before its end. So the `Evaluate` that it scores them with is replaced by one that does.

    with DemoDraws(search, val).told():
        dspy.BootstrapFewShotWithRandomSearch(…).compile(…)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any

import dspy
import dspy.teleprompt.random_search

from mas.prompt_sets.prompt_set import PromptSet, digest
from optimize.search.budget import Spend
from optimize.search.candidate import PARENT, Candidate, Decision, Proposal
from optimize.search.dspy_compat import replace_names
from optimize.search.optimizer import Search


class SearchOverError(Exception):
    """Nothing more is asked: there is no use in drawing on."""


class DemoDraws:
    """Of one search, in the thread of the search."""

    def __init__(self, search: Search, val: Sequence[Any]) -> None:
        self._search, self._val = search, val
        self._seen = {digest(search.parent.prompts)}
        self._best, self._began = 0.0, Spend()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Score the parent; then, inside, tell of each candidate.

        Raises:
            SearchOverError: nothing more is asked.
        """
        draws = self

        class Evaluate(dspy.Evaluate):
            def __call__(self, program: Any, *args: Any, **settings: Any) -> Any:
                result = super().__call__(program, *args, **settings)
                draws._scored(program, result.results)
                return result

        parent = dspy.Evaluate(
            devset=list(self._val), metric=self._search.metric, num_threads=self._search.threads, max_errors=10**9
        )
        self._best = fmean(score for _, _, score in parent(self._search.student).results)
        self._began = self._search.student.trials.ledger.spend()
        self._check_over()
        with replace_names(dspy.teleprompt.random_search, Evaluate=Evaluate):
            yield

    def _scored(self, program: Any, results: Sequence[tuple[Any, Any, float]]) -> None:
        prompts: PromptSet = program.prompts
        if (found := digest(prompts)) not in self._seen:
            self._seen.add(found)
            reached = [prediction.trial.reached for _, prediction, _ in results]
            if any(reached):
                self._tell(prompts, fmean(score for _, _, score in results), all(reached))
        self._check_over()

    def _tell(self, prompts: PromptSet, score: float, whole: bool) -> None:
        search, decision, reason = self._search, "rejected", f"no better than the best so far ({self._best:.1%})"
        if not whole:
            decision, reason = "cut_off", search.stopped() or "its scoring was broken off"
        elif score > self._best:
            decision, reason = "accepted", f"the best so far (before: {self._best:.1%})"
            self._best = score
        spend, number = search.student.trials.ledger.spend(), len(self._seen) - 1
        agents = tuple(agent for agent in prompts.texts if prompts.demos.get(agent) != _demos(search, agent))
        candidate = Candidate(f"c{number:03}", prompts, (PARENT,), agents, "bootstrap")
        told: Decision = decision  # type: ignore[assignment]
        share = spend.minus(self._began)
        search.proposed(Proposal(candidate, told, reason, iteration=number, val_score=score, spend=share))
        self._began = spend

    def _check_over(self) -> None:
        if self._search.stopped():
            raise SearchOverError


def _demos(search: Search, agent: str) -> Any:
    return search.parent.prompts.demos.get(agent)
