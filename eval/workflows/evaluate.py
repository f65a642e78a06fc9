"""One evaluation from a checked configuration to its exit code: a new run, or a run that is resumed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.analysis.summary.summarise import WITHOUT_RECORD, measure_overlap
from eval.analysis.summary.summary import Summary
from eval.benchmarks.dataset import Sample, read_labels
from eval.benchmarks.selection import select_samples
from eval.cli.command import STOPPED, InterruptedRunError, get_signal_name
from eval.config.evaluation import EvalConfig
from eval.config.tracking import NoTracking, remove_passwords
from eval.execution.console import MissingServices, Output
from eval.execution.executors.contract import Executor, PendingSample
from eval.execution.executors.selection import create_executor
from eval.execution.run_session import RunSession, SessionRecorder, begin_session, read_spent_usd
from eval.execution.scoring import SCORER
from eval.execution.termination import StopController
from eval.reports.files import ANSWERS, write_files
from eval.reports.summary_table import choose_exit_code, print_last_lines, print_results, print_wrong_answers
from eval.runs.folder import DATABASE, MLFLOW_STATE, REPORT, format_resume_hint, make_run_folder, read_origin
from eval.runs.logs import RunLogs, log_parts
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, describe_task, list_offered_tools, select_run_overrides
from eval.runs.store import RunStore, StoreError, list_pending, read_run_info
from eval.scorers.labels import find_labels
from mas.prompt_sets.prompt_set import PromptSet, describe_edits, digest
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from mas.system import list_critics, read_program_digest

if TYPE_CHECKING:
    from eval.mlflow_export.exporter_launcher import ExporterLauncher, ExportOutcome
    from eval.workflows.sweep import AddToSweep

_SHOWN_WRONG = 3  # answers, at the end of a run
_FEW = 5  # answers that are not worth waiting for, until the first one is there
# Exceptions that say nothing about the question: the server takes no such request, the program cannot be loaded.
_FAULTS = (
    *("LMInvalidRequestError", "LMUnsupportedModelError", "LMUnsupportedFeatureError", "LMNotConfiguredError"),
    *("LMConfigurationError", "LMProviderError", "ImportError", "ModuleNotFoundError", "NameError"),
)


@dataclass(frozen=True)
class Request:
    """Checked command line of an evaluation."""

    config: EvalConfig
    resolved: dict[str, Any]  # config as plain dictionaries
    prompts: PromptSet | None
    command: Sequence[str]  # the overrides as typed
    add_to_sweep: "AddToSweep | None" = None  # called with the run's folder, in a sweep


@dataclass(frozen=True)
class Ended:
    """The end of an evaluation."""

    folder: Path
    code: int  # exit code, see `eval.cli.command`
    summary: Summary | None = None  # None: the run's files could not be written


def evaluate(request: Request, output: Output | None = None) -> Ended:
    """Run the samples that are pending, keep their records, and show the results.

    Args:
        request: the checked command line.
        output: where its lines go; None: the terminal.

    Raises:
        UserError: a mistake that is seen only now, before the first sample: a bad row, a tool that cannot be loaded, a
            run that cannot be resumed like this.
        InterruptedRunError: a signal stopped the run.
    """
    config = request.config
    config.executor.check(request.resolved)
    split = config.data.load(config.split)
    samples = select_samples(split.samples, config.selection)
    if config.run.fail_under is not None and not any(sample.target is not None for sample in samples):
        raise UserError("run.fail_under is set, but none of the questions has a gold answer; leave it out.")
    info = _describe(request, samples, split.bad_rows)
    resumed, changes = None, dict[str, str]()
    if config.run.resume:
        from eval.workflows.resume import check_unchanged, find_run_to_resume

        resumed = find_run_to_resume(config.run.resume)
        changes = check_unchanged(read_run_info(resumed), info.config, info, config.run.allow_config_change)
    missing = MissingServices(config)
    with missing.open_resources() as resources, ExitStack() as stack:
        executor = create_executor(config, request.prompts, resources, request.resolved, samples, stack)
        name = config.run.name or f"{config.system.name}_{config.model_name}_{config.data.name}"
        folder = resumed or make_run_folder("eval", name, config.run.dir)
        sweep = request.add_to_sweep(folder, config) if request.add_to_sweep else None
        info = replace(
            info, tools=list_offered_tools(executor.program), critics=list_critics(config.system), sweep=sweep
        )
        with _open_store(folder) as store:
            run = _Evaluation(request, folder, store, samples, missing, output or Output())
            try:
                summary, tracked = run.answer(executor, info, changes, split.notes)
                ended = run.show(summary, tracked)
            except (OSError, StoreError) as error:  # a full disk: no sample fails this way, the run's own files can
                begun = True
                with suppress(StoreError):
                    begun = store.read_info().has_begun
                if not begun:
                    raise UserError(
                        f"{error}; nothing was begun: free space, then give the same command again."
                    ) from error
                run.output.print(f"stopped: {error}; what is finished is in {folder / DATABASE}", error=True)
                run.output.print(format_resume_hint(folder), error=True)
                ended = Ended(folder, STOPPED)
            except InterruptedRunError:
                raise
            except KeyboardInterrupt as interrupt:
                message = f"stopped by {get_signal_name(interrupt)}.\n{format_resume_hint(folder)}"
                raise InterruptedRunError(message) from interrupt
    if run.stop.interrupted:
        raise InterruptedRunError  # a multirun must not start its next job
    return ended


def _describe(request: Request, samples: Sequence[Sample], bad_rows: Sequence[str]) -> RunInfo:
    """Return everything known of the run before its folder is made."""
    config, prompts = request.config, request.prompts
    kept = config.redact_tree(request.resolved)
    overrides = map(remove_passwords, select_run_overrides(request.command))
    return RunInfo(
        config=kept,
        task=describe_task(
            samples,
            kept.get("scorer"),
            getattr(config.data, "revision", None),
            find_labels(samples, given=read_labels(config.data)).names,
        ),
        system=config.system.name,
        model=config.model_name,
        simulated=config.simulated,
        epochs=config.run.epochs,
        bad_rows=list(bad_rows),
        prompts_sha256=digest(prompts) if prompts else "",
        prompts_edited=list(prompts.edited) if prompts else [],
        origin=read_origin(),
        program_sha256=read_program_digest(config.system),
        command=[each for each in overrides if config.redact(each) == each],  # a secret is given again when resuming
    )


def _open_store(folder: Path) -> RunStore:
    try:
        return RunStore(folder / DATABASE)
    except StoreError as error:
        raise UserError(f"{error}.") from error


def _describe_fault(record: Record) -> str | None:
    """Return why the other samples would fail like this one; None: they need not."""
    if record.error is None or record.limit is not None:
        return None
    kind = record.error_details.type if record.error_details else None
    return record.error if record.error_class == SCORER or kind in _FAULTS else None


class _Evaluation:
    """Steps of one evaluation around its samples."""

    def __init__(
        self,
        request: Request,
        folder: Path,
        store: RunStore,
        samples: Sequence[Sample],
        missing: MissingServices,
        output: Output,
    ) -> None:
        self.request, self.config, self.folder, self.store = request, request.config, folder, store
        self.samples = {sample.id: sample for sample in samples}
        self.missing, self.output = missing, output
        self.wrong: list[Record] = []  # the first wrong answers, known at the end
        limits = self.config.run
        self.stop = StopController(
            limits.drain_seconds,
            limits.max_errors,
            limits.max_seconds,
            limits.max_same_errors,
            say=lambda line: output.print(line, error=True),
        )

    def answer(
        self, executor: Executor, info: RunInfo, changes: Mapping[str, str], notes: Sequence[str]
    ) -> "tuple[Summary, ExportOutcome | None]":
        """Run one session from its first entry in the run's folder to the end of its export to MLflow.

        `changes`: options that differ from the session before; `notes`: of the dataset.
        """
        config, folder = self.config, self.folder
        recorder = self.begin(info, changes)
        with self.open_exporter() or nullcontext() as exporter:
            with RunLogs(folder, config.secrets(), config.log) as logs:
                session = RunSession(config, recorder, folder, logs, self.output.console, self.stop)
                log_parts(logs.entry_point, info.system, info.config, self.request.prompts, executor.program)
                pending = self.list_pending(config.run.retry_errors)
                self.missing.report(self.output.print)
                self.announce(len(pending), notes)
                logs.entry_point.info("run started", questions=len(pending), changes=dict(changes))
                with self.stop.handle_signals():
                    stopped = session.run(executor, pending, self.begin_alone(len(pending)))
                    summary = self.end(recorder, stopped)
                logs.entry_point.info("files written", answers=summary.n, path=ANSWERS)
                ended = {name: getattr(summary, name) for name in ("stopped", "accuracy", "peak_memory_mb")}
                logs.entry_point.info("run ended", **ended)
            self.store.close()
            return summary, exporter.finish(self.output.print) if exporter else None

    def open_exporter(self) -> "ExporterLauncher | None":
        """Start the process that sends the run to MLflow; None: it is sent nowhere."""
        if isinstance(self.config.tracking, NoTracking) and not (self.folder / MLFLOW_STATE).exists():
            return None
        from eval.mlflow_export.exporter_launcher import ExporterLauncher

        return ExporterLauncher(self.config.tracking, self.folder, self.config.secrets())

    def begin(self, info: RunInfo, changes: Mapping[str, str]) -> SessionRecorder:
        """Write what the run's folder keeps before the first sample.

        Raises:
            UserError: the budget of the run is used up, or another process has begun a run in the folder.
        """
        budget, spent = self.config.run.max_cost_usd, read_spent_usd(self.store)
        if budget is not None and spent >= budget:
            raise UserError(f"the run has already spent ${spent:.4f} of run.max_cost_usd={budget:g}; give it more.")
        if not self.config.run.resume and self.store.read_last_attempts():  # begun since `check_free`
            raise UserError(
                f"{self.folder} already holds a run; resume it with run.resume={self.folder}, or name a new folder."
            )
        samples = list(self.samples.values())
        return begin_session(self.folder, self.store, info, samples, self.request.prompts, changes)

    def list_pending(self, retry_errors: bool) -> list[PendingSample]:
        """Return the samples without a final record."""
        keys = list_pending(list(self.samples), self.config.run.epochs, self.store.read_last_attempts(), retry_errors)
        return [(self.samples[key.sample_id], key) for key in keys]

    def announce(self, n_pending: int, notes: Sequence[str]) -> None:
        """Print what is known before the first sample: notes of the dataset, an estimate, and warnings."""
        config, prompts = self.config, self.request.prompts
        n_planned = len(self.samples) * config.run.epochs
        if config.simulated:
            self.output.print(SIMULATED_NOTICE, style="bold yellow")
        for note in notes:
            self.output.print(note)
        if prompts and (edits := describe_edits(prompts)):
            self.output.print(edits)
        if n_pending < n_planned:
            self.output.print(f"resuming {self.folder.name}: {n_pending} of {n_planned} answers remaining")
        if self.is_paid and n_pending:
            from eval.workflows.estimate import format_estimate

            estimate = format_estimate(config, n_pending)
            self.output.print(f"{estimate}; the first question shows it" if self.begin_alone(n_pending) else estimate)
        if use := self.store.read_info().tuning_use:
            from eval.reports.rare_notes import describe_tuned_on  # for prompts that were tuned

            scored = {each.id for each in self.samples.values() if each.target is not None}
            overlap = measure_overlap(use, scored, len(self.samples) - len(scored))
            if overlap.n_questions or overlap.edited:
                self.output.print(f"warning: {describe_tuned_on(overlap)}")

    @property
    def is_paid(self) -> bool:
        return self.config.needs_model and not self.config.model.simulated

    def begin_alone(self, n_pending: int) -> Callable[[Record], None] | None:
        """Return a function to be called after the first sample, if that is to be run alone.

        The first sample of a paid run shows a fault that would fail all of them; what it took is the estimate.
        """
        config = self.config
        is_long = n_pending > _FEW and config.run.max_same_errors is not None
        if not self.is_paid or config.run.resume or not is_long:
            return None
        from eval.workflows.estimate import format_measured, is_measured

        if is_measured(config):
            return None

        def judge_first(record: Record) -> None:
            if fault := _describe_fault(record):
                self.stop.stop_now(f"the first question failed in a way in which all would: {fault}")
            elif record.usage.lm_calls:
                self.output.print(format_measured(config, record.usage, n_pending - 1))

        return judge_first

    def end(self, recorder: SessionRecorder, stopped: str | None) -> Summary:
        """Record the end of the session and write the run's files."""
        self.stop.end_waiting()
        pending = self.list_pending(retry_errors=False)
        if not pending:
            stopped = None  # the last answer was a reason to stop, and nothing is left to run
        elif stopped is None:
            stopped = WITHOUT_RECORD
        recorder.end(stopped)
        wrong = (each for each in self.store.final_records() if each.error is None and each.scored and not each.correct)
        self.wrong = list(islice(wrong, _SHOWN_WRONG))
        (self.folder / REPORT).unlink(missing_ok=True)  # of an earlier session
        return write_files(self.folder, self.store)

    def show(self, summary: Summary, tracked: "ExportOutcome | None") -> Ended:
        """Show the results and where they are."""
        if tracked and tracked.warning:
            self.output.print(f"warning: {tracked.warning}", error=True)
        if self.output.shows_results:
            print_results(summary, self.folder, self.output.console)
            print_wrong_answers(self.wrong, self.output.console)
        code = choose_exit_code(summary, self.config.run.fail_under, self.output.console)
        if tracked and tracked.view_line:
            self.output.print(tracked.view_line)
        if self.output.shows_results:
            print_last_lines(summary, self.folder, self.output.console)
        return Ended(self.folder, code, summary)
