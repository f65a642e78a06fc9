"""Bootstrap: takes the agents' own steps in right answers to training questions as worked examples, and draws several.

DSPy's BootstrapFewShotWithRandomSearch (Khattab et al. 2023, arXiv 2310.03714). The instructions stay as they are;
each candidate is one draw of examples for all tuned agents, scored on all validation questions.

    BootstrapOptimizer(max_demos=3).search(search)
"""

import random
from dataclasses import dataclass
from typing import Any

from mas.runtime.errors import UserError
from optimize.search.optimizer import Search, SearchCost, SearchOutcome

_NOT_SHUFFLED = -1  # DSPy's "seed" of the first draw; it goes on with 0, 1, …


@dataclass
class BootstrapOptimizer:
    """Its fields are the keys of `conf/optimizer/bootstrap.yaml`."""

    name: str = "bootstrap"
    max_demos: int = 3
    candidates: int = 8
    needs_reflection: bool = False

    def check(self) -> None:
        """
        Raises:
            UserError: a setting makes no sense.
        """
        for option in ("max_demos", "candidates"):
            if getattr(self, option) < 1:
                raise UserError(f"optimizer.{option} is {getattr(self, option)}; expected a whole number from 1 on.")

    def cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """The parent on validation, its answers to the training questions, and each candidate on validation."""
        return SearchCost(min(max_metric_calls, n_val + n_train + self.candidates * n_val), 0)

    def search(self, search: Search) -> SearchOutcome:
        """
        Raises:
            what `search.proposed` raises, or what broke in the answering.
        """
        from optimize.search.dspy_compat import run_isolated

        run_isolated(lambda: self._compile(search))
        search.student.trials.check()
        return SearchOutcome()

    def _compile(self, search: Search) -> None:
        import dspy

        from optimize.search.optimizers.demo_draws import DemoDraws, SearchOverError

        def samples(ids: Any) -> list[Any]:
            return [dspy.Example(sample_id=each).with_inputs("sample_id") for each in ids]

        train, val = samples(search.train_ids), samples(search.val_ids)
        random.Random(search.seed).shuffle(train)  # DSPy's own draws have seeds that are always the same
        optimizer = dspy.BootstrapFewShotWithRandomSearch(
            metric=search.metric,
            metric_threshold=1.0,
            max_bootstrapped_demos=self.max_demos,
            max_labeled_demos=0,  # a label is the gold answer
            num_candidate_programs=self.candidates - 1,
            num_threads=search.threads,
            max_errors=10**9,
        )
        draws = range(_NOT_SHUFFLED, self.candidates - 1)
        try:
            with DemoDraws(search, val).told():
                optimizer.compile(search.student.for_demos(), trainset=train, valset=val, restrict=draws)
        except SearchOverError:
            return
