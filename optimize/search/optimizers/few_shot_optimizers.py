"""Bootstrap and MIPROv2: the agents' own steps in right answers to training questions as worked examples (demos).

Bootstrap is DSPy's BootstrapFewShotWithRandomSearch (Khattab et al. 2023, arXiv 2310.03714): each candidate is one draw
of demos for all tuned agents. MIPROv2 (Opsahl-Ong et al. 2024, arXiv 2406.11695) also proposes several texts for each
agent, without any answer, target or feedback; optuna's TPE sampler chooses the combinations of texts and demos.
"""

import functools
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from mas.prompt_sets.prompt_set import PromptSet, digest
from optimize.search.optimizer import Decision, SearchCost, SearchOutcome, SearchOverError, SearchTask, check_settings

if TYPE_CHECKING:
    import dspy

    from optimize.search.dspy_compat import Scored

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

    def search(self, task: SearchTask) -> SearchOutcome:
        import dspy

        from optimize.search.dspy_compat import to_examples

        train, val = to_examples(task.objective.train_ids), to_examples(task.objective.val_ids)
        random.Random(task.seed).shuffle(train)  # DSPy's own draws always have the same seeds
        draws = range(_NOT_SHUFFLED, self.candidates - 1)

        def compile_draws() -> None:
            optimizer = dspy.BootstrapFewShotWithRandomSearch(
                metric=task.objective,
                metric_threshold=1.0,
                max_bootstrapped_demos=self.max_demos,
                max_labeled_demos=0,  # a label would be the target
                num_candidate_programs=self.candidates - 1,
                num_threads=task.concurrency,
                max_errors=10**9,
            )
            optimizer.compile(task.student.copy_for_demos(), trainset=train, valset=val, restrict=draws)

        ScoredPrograms(task, self.name).search(compile_draws)
        return SearchOutcome()


@dataclass
class MiproOptimizer:
    """The fields are the keys of `conf/optimizer/mipro.yaml`."""

    name: str = "mipro"
    candidates: int = 6
    trials: int = 30
    max_demos: int = 3
    needs_reflection: bool = True

    def check(self) -> None:  # of the candidates one is the agent's own text
        check_settings(self, {"candidates": 2, "trials": 1, "max_demos": 0})

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Add the parent and each trial on validation, and the answers to training questions that demos come from."""
        answers = n_val + (n_train if self.max_demos else 0) + self.trials * n_val
        return SearchCost(min(max_metric_calls, answers), n_agents * (self.candidates - 1))

    def search(self, task: SearchTask) -> SearchOutcome:
        import dspy

        from optimize.search.dspy_compat import adapt_mipro, to_examples
        from optimize.search.optimizers.prompt_rewriter import InstructionDrafts, ReflectionRequests

        objective, train_ids = task.objective, list(task.objective.train_ids)
        random.Random(task.seed).shuffle(train_ids)
        requests = ReflectionRequests(task.get_stop_reason)
        questions = [objective.samples[each] for each in train_ids]
        create_drafts = functools.partial(InstructionDrafts, requests, questions, objective.labels.names)

        def compile_student() -> None:
            optimizer = dspy.MIPROv2(
                metric=objective,
                prompt_model=task.reflection_lm,
                task_model=task.reflection_lm,
                auto=None,
                num_candidates=self.candidates,
                max_bootstrapped_demos=self.max_demos,
                max_labeled_demos=0,  # a label would be the target
                metric_threshold=1.0,
                num_threads=task.concurrency,
                max_errors=10**9,
                track_stats=False,
                seed=task.seed,
            )
            optimizer.task_model = dspy.settings.lm  # agents have models of their own, or the user's default
            with adapt_mipro(create_drafts, has_demos=self.max_demos > 0):
                optimizer.compile(
                    task.student.copy_for_demos(),
                    trainset=to_examples(train_ids),
                    valset=to_examples(objective.val_ids),
                    num_trials=self.trials,
                    minibatch=False,
                    data_aware_proposer=False,  # of `trainset`; the drafts have the questions
                    program_aware_proposer=False,  # the source of a student says nothing about the system
                    fewshot_aware_proposer=False,  # the agents' right answers are the targets
                )

        ScoredPrograms(task, self.name).search(compile_student)
        return requests.finish(task.student.trials)


class ScoredPrograms:
    """The programs that DSPy scores in one search, each reported as a proposal. Used in the thread of the search."""

    def __init__(self, task: SearchTask, origin: str) -> None:
        """Begin with the parent; `origin` is that of the candidates."""
        self._task, self._student, self._origin = task, task.student, origin
        self._seen = {digest(task.student.prompts)}
        self._best_score = 0.0

    def search(self, compile_student: Callable[[], object]) -> None:
        """Score the parent on the validation questions, and let DSPy search until no more answers are possible."""
        from optimize.search.dspy_compat import observe_programs, run_isolated

        def score_and_compile() -> None:
            with suppress(SearchOverError), observe_programs(self.report_program):
                trials = self._student.answer_all(self._task.objective.val_ids)
                self._best_score = fmean(self._task.objective.assess(trial).score for trial in trials)
                self._check_over()
                compile_student()

        run_isolated(score_and_compile)
        self._student.trials.check()

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
            decision, reason = "cut_off", self._task.describe_break()
        elif score > self._best_score:
            decision, reason = "accepted", f"the best so far (before: {self._best_score:.1%})"
            self._best_score = score
        self._task.propose(
            prompts,
            self._student.initial_prompts,
            candidate_id=f"c{len(self._seen) - 1:03}",
            decision=decision,
            reason=reason,
            origin=self._origin,
            val_score=score if is_complete else None,
        )

    def _check_over(self) -> None:
        if self._task.get_stop_reason():
            raise SearchOverError
