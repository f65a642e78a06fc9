"""A tuning run with everything open that its phases share: files, call log, budget, program, questions.

with opened(request, splits, folder, console) as run:
    run.answers(run.parent.prompts)                  # one Trial a question of validation
    run.ledger.over                                   # None, or which budget is used up
"""

import functools
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.cli.paths import shown
from eval.execution.run_session import MissingServices
from eval.execution.runner import Runner
from eval.runs.call_log import CallLog, SampleResults
from eval.runs.folder import RunInUseError, RunLock
from eval.runs.run_info import read_origin
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.runtime.errors import UserError
from mas.runtime.event_loop import background_loop
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.system import Program, agent_names
from optimize.publishing.leaks import LeakIndex, LeakReport, collect_system_words
from optimize.questions.splits import Splits
from optimize.search.budget import REFLECTION, BudgetLedger, Spend, read_earlier_spend
from optimize.search.candidate import PARENT, Candidate
from optimize.search.objective import Objective
from optimize.search.student import Student
from optimize.search.trials import Trial, Trials
from optimize.session.config import TuningRequest
from optimize.session.masked_replies import MaskedReplies
from optimize.session.progress import format_progress, show_progress
from optimize.session.resuming import begin_session
from optimize.session.run_files import MARKER, RunFiles
from optimize.session.termination import EarlyVerdictError, Halt, RunStoppedError

LEAST_JUDGED = 10  # answers; before that a share of failures is luck
TRIALS = "trials.db"


class TuningRun:
    """Made by `open_tuning_run`."""

    def __init__(
        self, request: TuningRequest, splits: Splits, folder: Path, console: Console, stack: ExitStack
    ) -> None:
        self.request, self.config, self.splits, self.console = request, request.config, splits, console
        self.files = RunFiles(folder, request.config.redact)
        self.origin = {**read_origin(), "mlflow.source.name": "optimize/run.py"}
        seconds_before = begin_session(request, splits, self.files, self.origin)
        self.parent = Candidate(PARENT, self.read_prompts(PARENT))
        self.call_log = stack.enter_context(closing(CallLog(folder / "calls.db")))
        self.ledger = BudgetLedger(self.config.budget, self._spent_before(seconds_before))
        base, missing = self.config.base, MissingServices(self.config.base)
        resources = stack.enter_context(base.system.open_resources(base.tools, missing.note))
        self._program = base.system.build(base.model, self.parent.prompts, resources)
        missing.tell()
        samples = {each.id: each for each in (*splits.train, *splits.val)}
        self.objective = Objective(splits.train, splits.val)
        self.trials = Trials(self._runner(), samples, self.ledger, folder / TRIALS, lambda: self.halt.reason)
        stack.callback(self.trials.close)
        self.halt = Halt(self.config.run.drain_seconds, self._cancel)

    def _spent_before(self, seconds: float) -> Spend:
        """The answers of a search that is over are not scored again; of any other they are, and counted then."""
        searched = self.files.read("search") or {}
        return replace(read_earlier_spend(self.call_log, seconds), metric_calls=searched.get("metric_calls", 0))

    @property
    def run_id(self) -> str:
        return str(self.files.read("tuning")["run_id"])

    @property
    def train_ids(self) -> list[str]:
        return [sample.id for sample in self.splits.train]

    @property
    def val_ids(self) -> list[str]:
        return [sample.id for sample in self.splits.val]

    # Programs and answers

    def program(self, prompts: PromptSet) -> Program:
        """A copy of the system's program with these prompts."""
        program = self._program.deepcopy()
        apply_prompt_set(program, prompts)
        return program

    def student(self, prompts: PromptSet) -> Student:
        return Student(self.program(prompts), prompts, self.trials, self.config.agents)

    def answers(self, prompts: PromptSet, epoch: int = 1) -> list[Trial]:
        """Each validation question answered once; those of the first epoch are the search's own, and count as such.

        Raises:
            EndedError: the budget is used up, or the metric is broken.
            HaltedError: it was stopped.
        """
        with self.asking():
            trials = self.student(prompts).answer_all(self.val_ids, epoch, counted=epoch == 1)
        self.check_stopped()
        self.check_metric()
        if not all(trial.reached for trial in trials):
            raise EarlyVerdictError("budget", f"{self.ledger.refusal or self.trials.stop_reason}, before there was a verdict")
        return trials

    def _runner(self) -> Runner:
        config = self.config
        return Runner(
            run_id=self.run_id,
            program=self._program,  # each trial replaces it by its own copy
            scorer=config.base.scorer,
            concurrency=config.run.concurrency,
            deadline_seconds=config.run.deadline_seconds,
            listener=lambda thread_id, sample_key: lambda level, event, fields: None,
            redact=config.redact,
            finished=lambda record: None,
            question=self._question,
        )

    def _question(self, sample_key: SampleKey) -> SampleContext:
        replies = self._replies(sample_key)
        paid = functools.partial(self.call_log.pay, sample_key)
        return SampleContext(
            sample_key,
            self.config.base.limits,
            call_log=replies,
            tool_log=SampleResults(replies),
            budget=self.ledger.open_account(paid),
        )

    def _replies(self, sample_key: SampleKey) -> MaskedReplies:
        return MaskedReplies(self.call_log.for_sample(sample_key), self.config.base.secrets)

    @functools.cached_property
    def reflection_lm(self) -> Any:
        """The model that rewrites prompts; to be asked inside `reflecting`."""
        return self.config.base.model.create_reflection_lm(self.config.reflection_model)

    @contextmanager
    def use_reflection(self) -> Iterator[None]:
        """The reflection's requests are logged, paid for and replayed like any other's."""
        with use_context(self._reflection), self.asking():
            yield

    @functools.cached_property
    def _reflection(self) -> SampleContext:
        """One for the whole session: the same request, made again, is another one."""
        paid = functools.partial(self.call_log.pay, REFLECTION)
        return SampleContext(
            REFLECTION,
            call_log=self._replies(REFLECTION),
            budget=self.ledger.open_account(paid, reflection=True),
        )

    # Ending

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ctrl-C inside stops what is asked, not the process; meanwhile it is told how far the run has come."""
        with self.halt.on_signals(), show_progress(self.console, self._so_far):
            yield

    def _cancel(self) -> None:
        """Break off what is asked, a reflection as well."""
        self.trials.cancel()
        background_loop().call_soon_threadsafe(self._reflection.close)

    def _so_far(self) -> str:
        return format_progress(self.trials.n_reached, self.ledger.spend(), self.config.budget)

    def get_stop_reason(self) -> str | None:
        """Why nothing more is asked; None: the search may go on."""
        return self.trials.stop_reason or self.ledger.refusal

    def check_stopped(self) -> None:
        """
        Raises:
            HaltedError: by a signal, or by a model server that takes no more calls.
        """
        self.trials.check()
        if reason := self.halt.reason or self.trials.reason:
            raise RunStoppedError(reason)

    def check_metric(self) -> None:
        """
        Raises:
            EndedError: so many answers could not be scored that the others say nothing.
        """
        share, trials, objective = self.config.gate.max_metric_error_share, self.trials, self.objective
        for failed, scored, first in (
            (trials.n_metric_errors, trials.n_reached, trials.metric_error),
            (objective.errors, objective.calls, objective.first_error),
        ):
            if scored >= LEAST_JUDGED and failed > share * scored:
                raise EarlyVerdictError(
                    "metric_errors",
                    f"{failed} of {scored} answers could not be scored (gate.max_metric_error_share={share:g}): "
                    f"{first}",
                )

    # What is kept

    def read_prompts(self, candidate_id: str) -> PromptSet:
        system = self.config.base.system
        return self.files.candidate(candidate_id, agent_names(system), system.name)

    def check_leaks(self, prompts: PromptSet) -> LeakReport:
        return self._leak_index.check(prompts, self.parent.prompts, collect_system_words(self._program))

    @functools.cached_property
    def _leak_index(self) -> LeakIndex:
        return LeakIndex.of(self.splits.train, self.splits.val, self.splits.sealed)

    def note(self, phase: str, **facts: Any) -> None:
        """Where the run stands, for whoever looks into its folder."""
        self.files.update(phase=phase, spend=self.ledger.spend().to_dict(), **facts)

    def show(self, line: str) -> None:
        self.console.print(self.config.redact(line), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def open_tuning_run(request: TuningRequest, splits: Splits, folder: Path, console: Console) -> Iterator[TuningRun]:
    """
    Raises:
        UserError: another process is at work in the folder, or the run was started with other options.
    """
    lock = RunLock(folder / MARKER)
    try:
        lock.take()
    except RunInUseError as error:
        raise UserError(f"another process is at work on {shown(folder)}; wait for it, or start a new run.") from error
    try:
        with ExitStack() as stack:
            yield TuningRun(request, splits, folder, console, stack)
    finally:
        lock.release()
