"""One evaluation from a checked configuration to its exit code: a new run, or a run that is resumed."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from eval.analysis.summary.summarise import WITHOUT_RECORD
from eval.analysis.summary.summary import Summary
from eval.benchmarks.dataset import Sample, read_labels, select_samples
from eval.cli.command import STOPPED, get_signal_name
from eval.config.evaluation import NoTracking
from eval.execution.console import Output
from eval.execution.run_session import Session, SessionRequest, describe_run, open_session
from eval.execution.scoring import SCORER
from eval.reports.files import ANSWERS, write_files
from eval.reports.summary_table import choose_exit_code, print_last_lines, print_results, print_wrong_answers
from eval.runs.folder import DATABASE, MLFLOW_STATE, REPORT, format_resume_hint
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, SweepJob, describe_task
from eval.runs.store import StoreError, check_free, read_run_info
from eval.scorers.labels import find_labels
from mas.prompt_sets.prompt_set import describe_edits
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE

if TYPE_CHECKING:
    from eval.mlflow_export.exporter import ExporterLauncher

_SHOWN_WRONG = 3  # answers, at the end of a run
_FEW = 5  # answers that are not worth waiting for, until the first one is there
# Exceptions that say nothing about the question: the server takes no such request, the program cannot be loaded.
_FAULTS = (
    *("LMInvalidRequestError", "LMUnsupportedModelError", "LMUnsupportedFeatureError", "LMNotConfiguredError"),
    *("LMConfigurationError", "LMProviderError", "ImportError", "ModuleNotFoundError", "NameError"),
)


@dataclass(frozen=True)
class Ended:
    """The end of an evaluation."""

    folder: Path
    code: int  # exit code, see `eval.cli.command`
    summary: Summary | None = None  # None: the run's files could not be written
    is_interrupted: bool = False  # by a signal: a multirun does not start its next job


def evaluate(
    request: SessionRequest, output: Output | None = None, sweep: SweepJob | None = None, gold_informed: str = ""
) -> Ended:
    """Run the samples that are pending, keep their records, and show the results.

    Args:
        request: the checked command line; samples and folder are chosen here.
        output: where its lines go; None: the terminal.
        sweep, gold_informed: of the run, as `RunInfo` has them.

    Raises:
        UserError: a mistake that is seen only now, before the first sample.
    """
    config, output = request.config, output or Output()
    if config.run.dir and not config.run.resume:
        check_free(Path(config.run.dir))
    split = config.data.load(config.split)
    samples = select_samples(split.samples, config.selection)
    if config.run.fail_under is not None and not any(sample.target is not None for sample in samples):
        raise UserError("run.fail_under is set, but none of the questions has a gold answer; leave it out.")
    info = replace(_describe(request, samples, split.bad_rows), sweep=sweep, gold_informed=gold_informed)
    resumed, changes = None, dict[str, str]()
    if config.run.resume:
        from eval.workflows.resume import check_unchanged, find_run_to_resume

        resumed = find_run_to_resume(config.run.resume)
        changes = check_unchanged(read_run_info(resumed), info.config, info, config.run.allow_config_change)
    name = config.run.name or f"{config.system.name}_{config.model_name}_{config.data.name}"
    with open_session(replace(request, samples=samples, name=name, resumed=resumed), output) as session:
        run = _Evaluation(session, samples)
        try:
            if not resumed and session.store.read_info().has_begun:  # begun, and ended, since `check_free`
                place = session.folder
                raise UserError(
                    f"{place} already holds a run; resume it with run.resume={place}, or name a new folder."
                )
            session.begin(info, samples, changes)
            ended = run.answer(split.notes)
        except (OSError, StoreError) as error:  # a full disk: no sample fails this way, the run's own files can
            with suppress(StoreError):
                if not session.store.read_info().has_begun:
                    what = "nothing was begun: free space, then give the same command again"
                    raise UserError(f"{error}; {what}.") from error
            output.print(f"stopped: {error}; what is finished is in {session.folder / DATABASE}", error=True)
            output.print(format_resume_hint(session.folder), error=True)
            ended = Ended(session.folder, STOPPED)
        except KeyboardInterrupt as interrupt:
            output.print(f"stopped by {get_signal_name(interrupt)}.", error=True)
            output.print(format_resume_hint(session.folder), error=True)
            return Ended(session.folder, STOPPED, is_interrupted=True)
    return replace(ended, code=STOPPED, is_interrupted=True) if session.stop.interrupted else ended


def _describe(request: SessionRequest, samples: Sequence[Sample], bad_rows: Sequence[str]) -> RunInfo:
    """Return everything known of the run before its folder is made."""
    config, prompts, kept = request.config, request.prompts, request.config.stored_config
    labels = find_labels(samples, given=read_labels(config.data)).names
    task = describe_task(samples, kept.get("scorer"), labels)
    return replace(
        describe_run(request, kept, task),
        epochs=config.run.epochs,
        bad_rows=list(bad_rows),
        prompts_edited=list(prompts.edited) if prompts else [],
    )


def _describe_fault(record: Record) -> str | None:
    """Return why the other samples would fail like this one; None: they need not."""
    if record.error is None or record.limit is not None:
        return None
    kind = record.error_details.type if record.error_details else None
    return record.error if record.error_class == SCORER or kind in _FAULTS else None


class _Evaluation:
    """Steps of one evaluation around its samples."""

    def __init__(self, session: Session, samples: Sequence[Sample]) -> None:
        self.session, self.config, self.output = session, session.config, session.output
        self.samples = {sample.id: sample for sample in samples}
        self.wrong: list[Record] = []  # the first wrong answers, known at the end

    def answer(self, notes: Sequence[str]) -> Ended:
        """Answer what is pending, and show the results; `notes`: of the dataset."""
        session = self.session
        with self.open_exporter() or nullcontext() as exporter:
            keys = session.list_pending(self.config.run.retry_errors)
            pending = [(self.samples[key.sample_id], key) for key in keys]
            after_first = self.judge_first if self.begins_alone(len(pending)) else None
            self.announce(len(pending), notes, after_first is not None)
            session.answers.note("run started", questions=len(pending), changes=session.state.last_session.changes)
            with session.stop.handle_signals():
                summary = self.end(session.run(pending, after_first))
            session.answers.note("files written", answers=summary.n, path=ANSWERS)
            ended = {name: getattr(summary, name) for name in ("stopped", "accuracy", "peak_memory_mb")}
            session.answers.note("run ended", **ended)
            session.store.close()
            return self.show(summary, exporter)

    def open_exporter(self) -> "ExporterLauncher | None":
        if isinstance(self.config.tracking, NoTracking) and not (self.session.folder / MLFLOW_STATE).exists():
            return None
        from eval.mlflow_export.exporter import ExporterLauncher

        return ExporterLauncher(self.config.tracking, self.session.folder)

    def announce(self, n_pending: int, notes: Sequence[str], is_first_alone: bool) -> None:
        """Print what is known before the first sample: notes of the dataset, an estimate, and warnings."""
        config, prompts = self.config, self.session.prompts
        n_planned = len(self.samples) * config.run.epochs
        if config.simulated:
            self.output.print(SIMULATED_NOTICE, style="bold yellow")
        for note in notes:
            self.output.print(note)
        if prompts and (edits := describe_edits(prompts)):
            self.output.print(edits)
        if n_pending < n_planned:
            self.output.print(f"resuming {self.session.folder.name}: {n_pending} of {n_planned} answers remaining")
        if self.is_paid and n_pending:
            from eval.workflows.estimate import format_estimate

            shown = "; the first question shows it" if is_first_alone else ""
            self.output.print(f"{format_estimate(config, n_pending)}{shown}")
        if use := self.session.store.read_info().tuning_use:
            from eval.analysis.summary.rare_numbers import measure_overlap  # for prompts that were tuned
            from eval.reports.rare_notes import describe_tuned_on

            overlap = measure_overlap(use, {each.id for each in self.samples.values() if each.target is not None})
            if overlap.n_questions or overlap.is_edited:
                self.output.print(f"warning: {describe_tuned_on(overlap)}")

    @property
    def is_paid(self) -> bool:
        return self.config.needs_model and not self.config.model.simulated

    def begins_alone(self, n_pending: int) -> bool:
        """Return whether the first sample is run alone: it shows what all will take, or a fault that would fail all."""
        run = self.config.run
        if not self.is_paid or run.resume or n_pending <= _FEW or run.max_same_errors is None:
            return False
        from eval.workflows.estimate import is_measured

        return not is_measured(self.config)

    def judge_first(self, record: Record) -> None:
        if fault := _describe_fault(record):
            self.session.stop.stop_now(f"the first question failed in a way in which all would: {fault}")
        elif record.usage.lm_calls:
            from eval.workflows.estimate import format_estimate

            n_left = len(self.session.list_pending(self.config.run.retry_errors))
            self.output.print(format_estimate(self.config, n_left, first=record.usage))

    def end(self, stopped: str | None) -> Summary:
        session = self.session
        session.stop.end_waiting()
        if not session.list_pending(retry_errors=False):
            stopped = None  # the last answer was a reason to stop, and nothing is left to run
        elif stopped is None:
            stopped = WITHOUT_RECORD
        session.end(stopped)
        finals = session.store.final_records()
        wrong = (each for each in finals if each.error is None and each.scored and not each.correct)
        self.wrong = list(islice({each.sample_id: each for each in wrong}.values(), _SHOWN_WRONG))
        (session.folder / REPORT).unlink(missing_ok=True)  # of an earlier session
        return write_files(session.folder, session.store)

    def show(self, summary: Summary, exporter: "ExporterLauncher | None") -> Ended:
        """Print the results, wait until MLflow has them, and print where to look."""
        folder, output = self.session.folder, self.output
        if output.shows_results:
            print_results(summary, folder, output.console)
            print_wrong_answers(self.wrong, output.console)
        code = choose_exit_code(summary, self.config.run.fail_under, output.console)
        if exporter:
            exporter.finish(output.print, warn=lambda line: output.print(line, error=True))
        if output.shows_results:
            print_last_lines(summary, folder, output.console)
        return Ended(folder, code, summary)
