"""The system as DSPy's optimisers want it: a module that answers by sample id, never raises, and shows its trace.

Copies have prompts of their own and share the trials. Only the agents that are tuned are its predictors, under their
own names; the rest keep their prompts.

    student = Student(program, prompts, trials, agents=["plan"])
    student(sample_id="q1").trial.record.score      # 1.0
    student.prompts.texts["plan"]                     # as they are now
"""

import copy
import threading
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import dspy
from dspy.primitives.base_module import BaseModule

from mas.prompt_sets.demos import to_json
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, digest
from mas.system import Program
from optimize.search.steps import keep_last_steps
from optimize.search.trials import Trial, Trials

_SETTLING = threading.Lock()  # of any student: it takes less than a millisecond


class Student(dspy.Module):
    def __init__(self, program: Program, prompts: PromptSet, trials: Trials, agents: Collection[str] = ()) -> None:
        """
        Args:
            program: the system's own module, whose predictors are called like its agents.
            prompts: that it has now.
            agents: that are tuned; none named: all.
        """
        super().__init__()
        self.program, self.trials = program, trials
        self.agents = tuple(agents) or tuple(prompts.texts)
        self._shows_last_only = False
        self._prompts = prompts
        self._settled: tuple[list[Any], str] | None = None  # what the digest was made of, and the digest

    def named_parameters(self) -> list[tuple[str, Any]]:
        return [(name, predictor) for name, predictor in self.program.named_predictors() if name in self.agents]

    @property
    def prompts(self) -> PromptSet:
        """Texts and demos of all agents, as they are now."""
        predictors = dict(self.program.named_predictors())
        return replace(
            self._prompts,
            texts={name: each.signature.instructions for name, each in predictors.items()},
            demos={name: [to_json(demo, each.signature) for demo in each.demos] for name, each in predictors.items()},
            edited=(),
            provenance={},
        )

    def forward(self, sample_id: str) -> dspy.Prediction:
        """The answer to that example; its `trial` has the record, or says that nothing is asked any more."""
        trial = self.trial(sample_id)
        if dspy.settings.trace is not None:
            dspy.settings.trace.extend(keep_last_steps(trial.steps) if self._shows_last_only else trial.steps)
        return dspy.Prediction(final_answer=trial.record.answer, trial=trial)

    def trial(self, sample_id: str, epoch: int = 1, counted: bool = True) -> Trial:
        """
        Args:
            epoch: of another one, the answer is drawn afresh.
            counted: as a metric call of the budget.
        """
        answered = self.trials.ask(self.program, self._settle(), sample_id, epoch, counted)
        predictors = dict(self.program.named_predictors())
        steps = [(predictors[agent], inputs, outputs) for agent, inputs, outputs in answered.steps]
        return Trial(answered.record, steps, answered.reached)

    def _settle(self) -> str:
        """The digest of the prompts; once they have changed, they are applied as they would be when published."""
        with _SETTLING:
            if self._settled is None or not _same(self._settled[0], self._parts()):
                prompts = self.prompts
                apply_prompt_set(self.program, prompts)
                self._settled = (self._parts(), digest(prompts))
            return self._settled[1]

    def _parts(self) -> list[Any]:
        return [part for _, each in self.program.named_predictors() for part in (each.signature, each.demos)]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Student":
        copied = Student(_copied(self.program), self._prompts, self.trials, self.agents)
        copied._shows_last_only = self._shows_last_only
        return copied

    def for_demos(self) -> "Student":
        """A copy that shows the caller's trace one step an agent, the last: what is worth being an example."""
        copied: Student = copy.deepcopy(self)
        copied._shows_last_only = True
        return copied

    def reset_copy(self) -> "Student":
        """A copy without the demos of the tuned agents; DSPy's own would take their models, too."""
        copied: Student = copy.deepcopy(self)
        for _, predictor in copied.named_parameters():
            predictor.demos = []
        return copied


def _same(before: list[Any], now: list[Any]) -> bool:
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))


def _copied(program: Program) -> Program:
    """Predictors of its own; models, tools and whatever else it holds are shared, some of which cannot be copied."""
    return copy.deepcopy(program, {id(value): value for value in _shared(program)})


def _shared(program: Program) -> Iterator[Any]:
    for _, module in program.named_sub_modules():
        if isinstance(module, dspy.Predict):
            yield module.lm
        elif isinstance(module, BaseModule):
            yield from (value for value in vars(module).values() if not _holds_modules(value))


def _holds_modules(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_modules, value.values()))
    return isinstance(value, BaseModule) or (isinstance(value, list | tuple) and any(map(_holds_modules, value)))
