"""One evaluation from a checked configuration to its exit code: a new run, or a run that goes on."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from eval.analysis.summary.from_store import WITHOUT_RECORD
from eval.analysis.summary.summary import Summary
from eval.analysis.tuned_on import read_tuning_use
from eval.benchmarks.dataset import Sample
from eval.benchmarks.selection import select_samples
from eval.cli.command import STOPPED, InterruptedRunError, get_signal_name
from eval.config.evaluation import EvalConfig
from eval.config.tracking import remove_passwords
from eval.execution.executors.contract import PendingSample
from eval.execution.executors.local import LocalExecutor
from eval.execution.run_session import MissingServices, RunSession, SessionRecorder, begin_session, read_spent_usd
from eval.mlflow_export.exporter_launcher import ExporterLauncher
from eval.reports.files import write_reports, write_summary
from eval.reports.summary_table import choose_exit_code, print_results
from eval.runs.folder import DATABASE, format_resume_hint, make_run_folder
from eval.runs.logs import RunLogs
from eval.runs.run_info import RunInfo, describe_task, dump_config, list_offered_tools, read_origin
from eval.runs.store import RunStore, StoreError, list_pending
from eval.workflows.estimate import format_estimate
from eval.workflows.resume import check_unchanged, find_run_to_resume, select_run_overrides
from eval.workflows.sweep import add_run_to_sweep
from mas.prompt_sets.prompt_set import PromptSet, describe_edits, digest
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line, checked."""

    config: EvalConfig
    resolved: dict[str, Any]  # the same as plain dictionaries
    prompts: PromptSet | None
    command: Sequence[str]  # the overrides as typed


def evaluate(request: Request) -> int:
    """Run the questions, keep and show what came of them.

    Returns:
        The exit code (`eval.cli.command`).

    Raises:
        UserError: a mistake seen only now, and before the first question: a bad row, a tool that cannot be loaded, a
            run that cannot go on like this.
    """
    config = request.config
    split = config.data.load(config.split)
    samples = select_samples(split.samples, config.selection)
    if config.run.fail_under is not None and not any(sample.target is not None for sample in samples):
        raise UserError("run.fail_under is set, but none of the questions has a gold answer; leave it out.")
    info = _describe(request, samples, split.bad_rows)
    resumed = find_run_to_resume(config.run.resume) if config.run.resume else None
    changes = _find_changes(resumed, request, info) if resumed else {}
    missing = MissingServices(config)
    with config.system.open_resources(config.tools, missing.note) as resources:
        executor = LocalExecutor(config, request.prompts, resources)
        name = config.run.name or f"{config.system.name}_{config.model_name}_{config.data.name}"
        folder = resumed or make_run_folder("eval", name, config.run.dir)
        info = replace(info, tools=list_offered_tools(executor.program), sweep=add_run_to_sweep(folder, config))
        with _opened(folder) as store:
            run = _Run(request, folder, store, missing, split.notes)
            try:
                return run.execute(executor, samples, info, changes)
            except (OSError, StoreError) as error:  # a full disk: no question fails this way, the run's own files can
                print(f"stopped: {error}; what is finished is in {folder / DATABASE}", file=sys.stderr)
                print(format_resume_hint(folder), file=sys.stderr)
                return STOPPED
            except InterruptedRunError:
                raise
            except KeyboardInterrupt as interrupt:
                raise InterruptedRunError(
                    f"stopped by {get_signal_name(interrupt)}.\n{format_resume_hint(folder)}"
                ) from interrupt


def _find_changes(resumed: Path, request: Request, info: RunInfo) -> dict[str, str]:
    with _opened(resumed, read_only=True) as store:
        return check_unchanged(store.read_info(), request.resolved, info, request.config.run.allow_config_change)


def _opened(folder: Path, read_only: bool = False) -> RunStore:
    try:
        return RunStore(folder / DATABASE, read_only=read_only)
    except StoreError as error:
        raise UserError(f"{error}.") from error


def _describe(request: Request, samples: Sequence[Sample], bad_rows: Sequence[str]) -> RunInfo:
    """Return everything known of the run by now."""
    config, prompts = request.config, request.prompts
    kept = _kept(config, dump_config(request.resolved))
    plain = yaml.safe_load(kept)
    return RunInfo(
        config=plain,
        task=describe_task(samples, plain.get("scorer"), getattr(config.data, "revision", None)),
        system=config.system.name,
        model=config.model_name,
        simulated=config.simulated,
        epochs=config.run.epochs,
        bad_rows=list(bad_rows),
        prompts_sha256=digest(prompts) if prompts else "",
        prompts_edited=list(prompts.edited) if prompts else [],
        origin=read_origin(),
        command=_without_secrets(request),
    )


def _kept(config: EvalConfig, text: str) -> str:
    """A text as the run's folder may keep it. Addresses first: with `***` for a password one would log in with that."""
    return config.redact(remove_passwords(text))


def _without_secrets(request: Request) -> list[str]:
    """The overrides that the store may keep; one that holds a secret is given anew when the run is resumed."""
    overrides = map(remove_passwords, select_run_overrides(request.command))
    return [each for each in overrides if request.config.redact(each) == each]


class _Run:
    """One session of a run, from its first question to its last line."""

    def __init__(
        self, request: Request, folder: Path, store: RunStore, missing: MissingServices, notes: Sequence[str]
    ) -> None:
        self.request, self.config, self.folder, self.store = request, request.config, folder, store
        self.missing, self.notes = missing, notes
        self.console = Console()

    def execute(
        self, executor: LocalExecutor, samples: Sequence[Sample], info: RunInfo, changes: Mapping[str, str]
    ) -> int:
        self._check_budget()
        if not self.config.run.resume and self.store.keys():  # another process began one since `check_free`
            raise UserError(f"{self.folder} already holds a run; go on with it by run.resume, or name a new folder.")
        session = begin_session(self.folder, self.store, info, samples, self.request.prompts, changes)
        with ExporterLauncher(self.config.tracking, self.folder, self.config.secrets()) as exporter:
            summary, interrupted = self._run_samples(executor, samples, session, changes)
            self.store.close()
            tracked = exporter.finish(self._line)
        if tracked.link:
            summary = replace(summary, mlflow=tracked.link)
            write_summary(self.folder, summary)
        if tracked.warning:
            print(f"warning: {tracked.warning}", file=sys.stderr)
        print_results(summary, self.folder, self.console)
        code = choose_exit_code(summary, self.config.run.fail_under, self.console)
        if tracked.view_line:
            self._line(tracked.view_line)
        if interrupted:
            raise InterruptedRunError  # a multirun must not go on to its next job
        return code

    def _run_samples(
        self, executor: LocalExecutor, samples: Sequence[Sample], session: SessionRecorder, changes: Mapping[str, str]
    ) -> tuple[Summary, bool]:
        """Run what is pending and write the run's files; return the summary, and whether the run was interrupted."""
        with RunLogs(self.folder, redact=self.config.secrets()) as logs:
            running = RunSession(self.config, session, self.folder, logs, self.console)
            pending = self._list_pending(samples)
            self.missing.print_notes()
            self._announce(len(pending), len(samples) * self.config.run.epochs)
            self._warn_of_tuning(samples)
            logs.entry_point.info("run started", questions=len(pending), changes=dict(changes))
            stopped = running.run(executor, pending)
            if stopped is None and self._list_pending(samples, retry_errors=False):
                stopped = WITHOUT_RECORD
            session.end(stopped, self.config.model.concurrency_history() if self.config.needs_model else [])
            summary = write_reports(self.folder, self.store)
            logs.entry_point.info("run ended", stopped=stopped, accuracy=summary.accuracy)
        return summary, running.stop.interrupted

    def _check_budget(self) -> None:
        budget, spent = self.config.run.max_cost_usd, read_spent_usd(self.store, self.folder)
        if budget is not None and spent >= budget:
            raise UserError(f"the run has already spent ${spent:.4f} of run.max_cost_usd={budget:g}; give it more.")

    def _list_pending(self, samples: Sequence[Sample], retry_errors: bool | None = None) -> list[PendingSample]:
        retry = self.config.run.retry_errors if retry_errors is None else retry_errors
        by_id = {sample.id: sample for sample in samples}
        sample_keys = list_pending(list(by_id), self.config.run.epochs, self.store.keys(), retry)
        return [(by_id[sample_key.sample_id], sample_key) for sample_key in sample_keys]

    def _announce(self, left: int, planned: int) -> None:
        if self.config.simulated:
            self.console.print(SIMULATED_NOTICE, style="bold yellow")
        for told in self.notes:
            self._line(told)
        if self.request.prompts and (note := describe_edits(self.request.prompts)):
            self._line(note)
        if left < planned:
            self._line(f"going on with {self.folder.name}: {left} of {planned} answers are still to be had")
        if self.config.needs_model and not self.config.model.simulated and left:
            self._line(format_estimate(self.config, left))

    def _warn_of_tuning(self, samples: Sequence[Sample]) -> None:
        used, scored = read_tuning_use(self.store.read_info()), {each.id for each in samples if each.target is not None}
        if used and (warning := used.among(scored).describe_warning(len(scored), len(samples) - len(scored))):
            self._line(f"warning: {warning}")

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
