"""An open tuning run: everything that its phases share (files, call log, budget, program, questions, stop request).

with open_tuning_run(config, splits, folder, console) as run:
    run.answer_validation(run.parent)        # one Trial per validation question
    run.budget.refusal                               # None, or the sentence which budget is used up
"""

import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import dspy
from rich.live import Live
from rich.text import Text

from eval.benchmarks.fingerprint import compute_dataset_digest
from eval.execution.budget import REFLECTION, Budget, read_earlier_spend
from eval.execution.console import Console, MissingServices
from eval.execution.executors.contract import SampleHooks
from eval.execution.executors.selection import create_executor
from eval.execution.run_session import SessionRecorder, begin_session
from eval.execution.termination import RunStoppedError, StopController
from eval.runs.call_log import CallLog, SampleResults
from eval.runs.folder import DATABASE, TUNING_FILE, VERDICT, read_origin
from eval.runs.logs import AnswerLog, RunLogs, log_parts
from eval.runs.own_runs import is_own_run
from eval.runs.run_info import RunInfo, TuningTask, describe_task, list_offered_tools
from eval.runs.store import RunStore, StoreError, read_run_info
from eval.scorers.score import name_metric, read_scorer_digest, read_scorer_name
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, digest
from mas.prompt_sets.shelf import is_gated
from mas.runtime.errors import UserError
from mas.runtime.event_loop import background_loop
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.system import Program, list_critics, read_program_digest
from optimize.gate.gate import MAX_FAILED_SHARE
from optimize.gate.verdict import EarlyVerdictError
from optimize.publishing.leaks import LeakIndex, LeakReport, collect_system_words
from optimize.questions.splits import Splits
from optimize.search.optimizer import PARENT
from optimize.search.student import Objective, Student
from optimize.search.trials import Trial, Trials
from optimize.session.config import TuneConfig
from optimize.session.tuning_store import check_unchanged, filter_overrides, read_parent, take_snapshot, write_file

MIN_JUDGED = 10  # answers; in fewer, the share of failures is luck
_LINE_SECONDS = 30.0  # between plain lines, so that hours of search do not flood a log


class TuningRun:
    """State of one session of a run. Created by `open_tuning_run`."""

    def __init__(self, config: TuneConfig, splits: Splits, store: RunStore, console: Console, stack: ExitStack) -> None:
        self.config, self.splits, self.console = config, splits, console
        self.store, self.folder = store, store.path.parent
        self.origin = {**read_origin(), "mlflow.source.name": "optimize/run.py"}
        self.recorder = begin_tuning(config, splits, store, self.origin)
        self.run_id = self.recorder.info.run_id
        self.stopped: str | None = None  # why it ends without a verdict
        self.parent = self.read_prompts(PARENT)
        logs = stack.enter_context(RunLogs(self.folder, config.base.secrets(), config.base.log))
        self.stop = StopController(self.config.base.run.drain_seconds)
        self.answers = AnswerLog(logs, self.stop.stop_now)
        self.call_log = CallLog(store, config.base.secrets())
        search = store.read_result("search") or {}  # answers count only if their search is finished, and not repeated
        earlier = read_earlier_spend(self.call_log, self.recorder.state.wall_seconds)
        self.budget = Budget(self.config.budget, replace(earlier, metric_calls=search.get("metric_calls", 0)))
        base, missing = self.config.base, MissingServices(self.config.base)
        resources = stack.enter_context(missing.open_resources())
        samples = [*splits.train, *splits.val, *splits.sealed]
        executor = create_executor(base, self.parent, resources, config.worker_config, samples, stack)
        self._program = executor.program
        self.recorder.info = replace(self.recorder.info, tools=list_offered_tools(self._program))
        store.write_info(self.recorder.info)
        missing.report()
        log_parts(logs.entry_point, config.base.system.name, config.stored_config, self.parent, self._program)
        self.objective = Objective(splits.train, splits.val, base.scorer, splits.labels)
        task = self.recorder.info
        hooks = SampleHooks(self.folder, self.answers, self.call_log.read_replies, is_search=True)
        self.trials = Trials(
            executor.open(task, hooks, self.stop),
            self.run_id,
            self._create_context,
            self.objective.samples,
            self.budget,
            store,
            self.config.base.run.concurrency,
            self.stop,
            self.answers,
        )
        stack.callback(self.trials.close)

    # Programs and answers

    @property
    def metric(self) -> str:
        """The name of what is compared, by the scorer and the answers so far."""
        return name_metric(read_scorer_name(self.config.stored_config.get("scorer")), self.store.list_scores())

    def build_program(self, prompts: PromptSet) -> Program:
        """Return a copy of the system's program with these prompts."""
        program = self._program.deepcopy()
        apply_prompt_set(program, prompts)
        return program

    def build_student(self, prompts: PromptSet) -> Student:
        return Student(self.build_program(prompts), prompts, self.trials, self.config.agents)

    def answer_validation(self, prompts: PromptSet, epoch: int = 1) -> list[Trial]:
        """Answer each validation question once. Answers of epoch 1 are shared with the search, and count as its own.

        Raises:
            EarlyVerdictError: the budget is used up, or the metric is broken.
            RunStoppedError: the run was stopped.
        """
        with self.watch():
            trials = self.build_student(prompts).answer_all(self.objective.val_ids, epoch)
        self.check_stopped()
        self.check_metric()
        if not all(trial.completed for trial in trials):
            reason = self.budget.refusal or self.trials.stop_reason
            raise EarlyVerdictError("budget", f"{reason}, before there was a verdict")
        return trials

    def _create_context(self, sample_key: SampleKey) -> SampleContext:
        replies = self.call_log.for_sample(sample_key)
        return SampleContext(
            sample_key,
            self.config.base.limits,
            call_log=replies,
            tool_log=SampleResults(replies),
            budget=self.budget.open_account(functools.partial(self.call_log.pay, sample_key)),
        )

    @functools.cached_property
    def reflection_lm(self) -> dspy.BaseLM:
        """The model that rewrites prompts; call it inside `use_reflection`."""
        return self.config.base.model.create_reflection_lm(self.config.reflection_model)

    @contextmanager
    def use_reflection(self) -> Iterator[None]:
        """Log, pay and replay the reflection's requests inside the block."""
        with use_context(self._reflection), self.watch():
            yield

    @functools.cached_property
    def _reflection(self) -> SampleContext:
        """One context for the session, so that a repeated request is not answered from its first reply."""
        pay = functools.partial(self.call_log.pay, REFLECTION)
        return SampleContext(
            REFLECTION,
            call_log=self.call_log.for_sample(REFLECTION),
            budget=self.budget.open_account(pay, reflection=True),
        )

    # Stopping

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Inside the block, Ctrl-C stops the requests instead of the process, and progress is shown."""
        with self.stop.handle_signals(), self.stop.in_flight(self._cancel), self._show_progress():
            yield

    @contextmanager
    def _show_progress(self) -> Iterator[None]:
        """Show a line below what the phase prints."""
        if self.console.is_terminal:
            with Live(console=self.console, transient=True, get_renderable=lambda: Text(self._format_progress())):
                yield
            return
        ended = threading.Event()

        def report() -> None:
            while not ended.wait(_LINE_SECONDS):
                self.show(f"  {self._format_progress()}")

        reporter = threading.Thread(target=report, name="progress", daemon=True)
        reporter.start()
        try:
            yield
        finally:
            ended.set()
            reporter.join()

    def _format_progress(self) -> str:
        """Return a line with the answers of this session, replayed ones included, and the spend of all sessions."""
        spend, planned = self.budget.spend(), self.config.budget.metric_calls
        scored = f"{spend.metric_calls:,}" + (f" of {planned:,}" if planned else "")
        usd = f", ${spend.cost_usd:,.4f}" if spend.cost_usd else ""
        spent = f"{spend.lm_calls:,} requests{usd}, {spend.seconds:,.0f} s"
        return f"so far: {self.trials.n_completed:,} answers ({scored} metric calls), {spent}"

    def _cancel(self) -> None:
        """Cancel the requests in flight, the reflection's included."""
        self.trials.cancel()
        background_loop().call_soon_threadsafe(self._reflection.close)

    def get_stop_reason(self) -> str | None:
        """Return why no more requests are sent; None while the search may go on."""
        return self.trials.stop_reason or self.budget.refusal

    def check_stopped(self) -> None:
        """Check that nobody has stopped the run.

        Raises:
            RunStoppedError: by a signal, or because the model's server refuses further requests.
        """
        self.trials.check()
        if reason := self.stop.reason:
            raise RunStoppedError(reason)

    def check_metric(self) -> None:
        """Check the share of answers that could not be scored.

        Raises:
            EarlyVerdictError: it is so large that the other scores mean nothing.
        """
        share, trials, objective = MAX_FAILED_SHARE, self.trials, self.objective
        for failed, scored, first in (
            (trials.n_metric_errors, trials.n_completed, trials.metric_error),
            (objective.errors, objective.calls, objective.first_error),
        ):
            if scored >= MIN_JUDGED and failed > share * scored:
                raise EarlyVerdictError(
                    "metric_errors",
                    f"{failed} of {scored} answers could not be scored: {first}",
                )

    # Files

    def read_prompts(self, candidate_id: str) -> PromptSet:
        return take_snapshot(self.store).get_prompts(candidate_id)

    def check_leaks(self, prompts: PromptSet) -> LeakReport:
        words = collect_system_words(self._program)
        task = self.recorder.info.tuning
        return self._leak_index.check(prompts, self.parent, words, task is not None and task.parent_gated)

    @functools.cached_property
    def _leak_index(self) -> LeakIndex:
        return LeakIndex(self.splits.train, self.splits.val, self.splits.sealed, self.splits.labels)

    def save_spend(self, **changes: object) -> None:
        """Write what was spent so far, and other changes of the run's state."""
        self.recorder.update(spend=self.budget.spend().to_dict(), **changes)

    def show(self, line: str) -> None:
        self.console.print(self.config.redact(line), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def open_tuning_run(config: TuneConfig, splits: Splits, folder: Path, console: Console) -> Iterator[TuningRun]:
    """Open a new run, or one that is resumed, and lock its folder.

    Raises:
        UserError: another process uses the folder, or the run was started with other options.
    """
    if config.resume and (before := read_run_info(folder)).tuning:  # opening the store writes to it
        check_unchanged(before, config.base, config.stored_config)
    with ExitStack() as stack:
        try:
            store = stack.enter_context(RunStore(folder / DATABASE, redact=config.redact))
        except StoreError as error:
            raise UserError(f"{error}.") from error
        yield TuningRun(config, splits, store, console, stack)


def begin_tuning(config: TuneConfig, splits: Splits, store: RunStore, origin: Mapping[str, str]) -> SessionRecorder:
    """Check a resumed run, or write the files of a new one, and begin a session.

    Raises:
        UserError: the run was started with other options, or its questions or files have changed.
    """
    base, folder, prompts = config.base, store.path.parent, config.parent
    before, parent_gated = store.read_info(), is_gated(config.parent)
    if before.tuning:
        splits.check_same(store.read_result("splits") or {})
        prompts = read_parent(folder, before)
        prompts = replace(prompts, name=before.prompts_name or prompts.name)
        store.write_results({"verdict": None})  # it says that a budget was used up, which may be larger now
        (folder / VERDICT).unlink(missing_ok=True)
        # Of a run from elsewhere, a gate that nobody here has seen would count as ours.
        parent_gated = before.tuning.parent_gated and is_own_run(before.run_id, folder)
    else:
        write_file(store, TUNING_FILE, splits.to_dict())  # first: by it the folder is known as a tuning run's
        store.write_results({"splits": splits.to_dict()})
    revision, scorer = getattr(base.data, "revision", None), config.stored_config.get("scorer")
    task = describe_task(splits.sealed, scorer, revision, splits.labels.names)
    info = RunInfo(
        config=config.stored_config,
        command=filter_overrides(config.command, config.redact),
        task=replace(task, dataset_sha256=compute_dataset_digest(splits.sealed, ordered=False)),
        system=base.system.name,
        model=base.model_name,
        simulated=base.simulated,
        critics=list_critics(base.system),
        origin=dict(origin),
        prompts_sha256=digest(prompts),
        program_sha256=read_program_digest(base.system),
        tuning=TuningTask(
            name=config.name,
            optimizer=config.optimizer.name,
            reflection_model=config.reflection_model or base.model_name,
            seed=config.seed,
            split_digest=splits.digest,
            sealed_digest=splits.sealed_digest,
            scorer_sha256=read_scorer_digest(base.scorer),
            parent_gated=parent_gated,
        ),
    )
    return begin_session(folder, store, info, [], prompts)
