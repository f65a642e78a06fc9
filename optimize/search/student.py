"""The system as DSPy's optimizers want it: a module that answers by sample id, never raises, and shows its trace.

Copies have prompts of their own and share the trials. Only the tuned agents are predictors of a student, under their
own names; the others keep their prompts.

    student = Student(program, prompts, trials, agents=["plan"])
    student(sample_id="q1").trial.record.score      # 1.0
    student.prompts.texts["plan"]                     # the current text
"""

import copy
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace

import dspy

from mas.prompt_sets.demos import to_json
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, digest
from mas.system import Program
from optimize.search.dspy_compat import BaseModule
from optimize.search.trials import Trial, Trials, keep_last_steps

_APPLYING = threading.Lock()  # shared by all students: it is held for less than a millisecond


class Student(dspy.Module):
    """A program whose answers are trials."""

    def __init__(self, program: Program, prompts: PromptSet, trials: Trials, agents: Collection[str] = ()) -> None:
        """Create a student.

        Args:
            program: the system's module, whose predictors are named like its agents.
            prompts: its prompts.
            trials: answers its questions.
            agents: the tuned agents; empty: all.
        """
        super().__init__()
        self.program, self.initial_prompts, self.trials = program, prompts, trials
        self.agents = tuple(agents) or tuple(prompts.texts)
        self._shows_last_only = False
        self._applied: tuple[list[object], str] | None = None  # signatures and demos, and the digest of the prompts

    def named_parameters(self) -> list[tuple[str, dspy.Predict]]:
        return [(name, predictor) for name, predictor in self.program.named_predictors() if name in self.agents]

    @property
    def prompts(self) -> PromptSet:
        """The current texts and demos of all agents."""
        predictors = dict(self.program.named_predictors())
        return replace(
            self.initial_prompts,
            texts={name: each.signature.instructions for name, each in predictors.items()},
            demos={name: [to_json(demo, each.signature) for demo in each.demos] for name, each in predictors.items()},
            edited=(),
            provenance={},
        )

    def forward(self, sample_id: str) -> dspy.Prediction:
        """Return the answer to a question, with its `trial`."""
        trial = self.trial(sample_id)
        if dspy.settings.trace is not None:
            predictors = dict(self.program.named_predictors())
            steps = keep_last_steps(trial.steps) if self._shows_last_only else trial.steps
            dspy.settings.trace.extend((predictors[agent], inputs, outputs) for agent, inputs, outputs in steps)
        return dspy.Prediction(final_answer=trial.record.answer, trial=trial)

    def trial(self, sample_id: str, epoch: int = 1, counted: bool = True) -> Trial:
        """Return the trial of a question; `counted` as a metric call of the budget."""
        return self.trials.run(self.program, self._apply_prompts(), sample_id, epoch, counted)

    def answer_all(self, sample_ids: Sequence[str], epoch: int = 1, counted: bool = True) -> list[Trial]:
        """Return a trial of each question, running `trials.concurrency` at once.

        Raises:
            Exception: a defect of the harness; a question's own failure is part of its record.
        """
        with ThreadPoolExecutor(max(1, min(self.trials.concurrency, len(sample_ids)))) as pool:
            waiting = [pool.submit(copy_context().run, self.trial, each, epoch, counted) for each in sample_ids]
            trials = [each.result() for each in waiting]
        self.trials.check()
        return trials

    def copy_for_demos(self) -> "Student":
        """Return a copy that adds one step per agent to the caller's trace, the last: a useful worked example."""
        copied: Student = copy.deepcopy(self)
        copied._shows_last_only = True
        return copied

    def reset_copy(self) -> "Student":
        """Return a copy without demos of the tuned agents. DSPy's own method would remove their models as well."""
        copied: Student = copy.deepcopy(self)
        for _, predictor in copied.named_parameters():
            predictor.demos = []
        return copied

    def _apply_prompts(self) -> str:
        """Apply changed prompts as a published set would be, and return their digest."""
        with _APPLYING:
            if self._applied is None or not _are_same(self._applied[0], self._parts()):
                prompts = self.prompts
                apply_prompt_set(self.program, prompts)
                self._applied = (self._parts(), digest(prompts))
            return self._applied[1]

    def _parts(self) -> list[object]:
        return [part for _, each in self.program.named_predictors() for part in (each.signature, each.demos)]

    def __deepcopy__(self, memo: dict[int, object]) -> "Student":
        copied = Student(_copy_program(self.program), self.initial_prompts, self.trials, self.agents)
        copied._shows_last_only = self._shows_last_only
        return copied


def _are_same(before: Sequence[object], now: Sequence[object]) -> bool:
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))


def _copy_program(program: Program) -> Program:
    """Copy the predictors only: models, tools and other values are shared, and some of them cannot be copied."""
    return copy.deepcopy(program, {id(value): value for value in _shared_values(program)})


def _shared_values(program: Program) -> Iterator[object]:
    for _, module in program.named_sub_modules():
        if isinstance(module, dspy.Predict):
            yield module.lm
        elif isinstance(module, BaseModule):
            yield from (value for value in vars(module).values() if not _holds_modules(value))


def _holds_modules(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_modules, value.values()))
    return isinstance(value, BaseModule) or (isinstance(value, list | tuple) and any(map(_holds_modules, value)))
