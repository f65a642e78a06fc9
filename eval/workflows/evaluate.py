"""One evaluation from a checked configuration to its exit code: a new run, or a run that goes on."""

import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from eval.analysis.tuned_on import tuned_facts, used_to_tune
from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_dataset_digest
from eval.cli.command import STOPPED, InterruptedRunError, signal_of
from eval.config.evaluation import EvalConfig
from eval.config.tracking import remove_passwords
from eval.execution.run_session import MissingServices, RunSession, spent_usd
from eval.execution.runner import Try
from eval.execution.tool_counts import list_offered_tools
from eval.mlflow_export.exporter_launcher import ExporterLauncher
from eval.reports.files import write_summary
from eval.reports.from_store import WITHOUT_RECORD, write_reports
from eval.reports.summary_table import choose_exit_code, print_results
from eval.runs.folder import DATABASE, format_resume_hint, keep_prompts, kept_prompts, make_run_folder
from eval.runs.logs import RunLogs
from eval.runs.record import PlannedQuestion
from eval.runs.run_info import FILES, origin, task_facts
from eval.runs.session import Session
from eval.runs.store import RunStore, StoreError, list_pending
from eval.workflows.estimate import estimate
from eval.workflows.resume import check_unchanged, of_the_run, run_to_resume
from eval.workflows.selection import select
from eval.workflows.sweep.sweep import add_run_to_sweep
from mas.prompt_sets.prompt_set import PromptSet, digest, edited_note
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from mas.system import Program


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
    samples = select(split.samples, config.selection)
    if config.run.fail_under is not None and not any(sample.target is not None for sample in samples):
        raise UserError("run.fail_under is set, but none of the questions has a gold answer; leave it out.")
    digests = _digests(request, samples)
    resumed = run_to_resume(config.run.resume) if config.run.resume else None
    changes = _changes(resumed, request, digests) if resumed else {}
    missing = MissingServices(config)
    with config.system.open_resources(config.tools, missing.note) as resources:
        program = config.system.build(config.model, request.prompts, resources)
        name = config.run.name or f"{config.system.name}_{config.model_name}_{config.data.name}"
        folder = resumed or make_run_folder("eval", name, config.run.dir)
        tools = {"tools": json.dumps(list_offered_tools(program))}
        facts = {**digests, **add_run_to_sweep(folder, config), **tools, **_facts(request, samples, split.bad_rows)}
        with _opened(folder) as store:
            run = _Run(request, folder, store, missing, split.notes)
            try:
                return run.execute(program, samples, facts, changes)
            except (OSError, StoreError) as error:  # a full disk: no question fails this way, the run's own files can
                print(f"stopped: {error}; what is finished is in {folder / DATABASE}", file=sys.stderr)
                print(format_resume_hint(folder), file=sys.stderr)
                return STOPPED
            except InterruptedRunError:
                raise
            except KeyboardInterrupt as interrupt:
                raise InterruptedRunError(
                    f"stopped by {signal_of(interrupt)}.\n{format_resume_hint(folder)}"
                ) from interrupt


def _digests(request: Request, samples: Sequence[Sample]) -> dict[str, str]:
    return {
        "prompts_sha256": digest(request.prompts) if request.prompts else "",
        "dataset_sha256": compute_dataset_digest(samples),
    }


def _changes(resumed: Path, request: Request, digests: Mapping[str, str]) -> dict[str, str]:
    with _opened(resumed, read_only=True) as store:
        return check_unchanged(store.meta(), request.resolved, digests, request.config.run.allow_config_change)


def _opened(folder: Path, read_only: bool = False) -> RunStore:
    try:
        return RunStore(folder / DATABASE, read_only=read_only)
    except StoreError as error:
        raise UserError(f"{error}.") from error


def _facts(request: Request, samples: Sequence[Sample], bad_rows: Sequence[str]) -> dict[str, str]:
    config = request.config
    kept = _kept(config, yaml.safe_dump(request.resolved, sort_keys=False, allow_unicode=True))
    return {
        **task_facts(samples, yaml.safe_load(kept).get("scorer"), getattr(config.data, "revision", None)),
        "config": kept,
        "system": config.system.name,
        "model": config.model_name,
        "simulated": json.dumps(config.simulated),
        "epochs": str(config.run.epochs),
        "bad_rows": json.dumps(list(bad_rows)),
        "prompts_edited": json.dumps(request.prompts.edited if request.prompts else []),  # files, since published
        "origin": json.dumps(origin()),
        "command": json.dumps(_without_secrets(request)),  # last: a run that has it can be resumed
    }


def _kept(config: EvalConfig, text: str) -> str:
    """A text as the run's folder may keep it. Addresses first: with `***` for a password one would log in with that."""
    return config.redact(remove_passwords(text))


def _without_secrets(request: Request) -> list[str]:
    """The overrides that the store may keep; one that holds a secret is given anew when the run is resumed."""
    overrides = map(remove_passwords, of_the_run(request.command))
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
        self, program: Program, samples: Sequence[Sample], facts: Mapping[str, str], changes: Mapping[str, str]
    ) -> int:
        self._check_budget()
        session = self._begin(samples, facts, changes)
        with ExporterLauncher(self.config.tracking, self.folder, self.config.secrets()) as following:
            summary, interrupted = self._questions(program, samples, session, changes)
            self.store.close()
            tracked = following.finish(self._line)
        if tracked.link:
            write_summary(self.folder, summary | {"mlflow": tracked.link})
        if tracked.warning:
            print(f"warning: {tracked.warning}", file=sys.stderr)
        print_results(summary, self.folder, self.console)
        code = choose_exit_code(summary, self.config.run.fail_under, self.console)
        if tracked.view_line:
            self._line(tracked.view_line)
        if interrupted:
            raise InterruptedRunError  # a multirun must not go on to its next job
        return code

    def _questions(
        self, program: Program, samples: Sequence[Sample], session: Session, changes: Mapping[str, str]
    ) -> tuple[dict[str, Any], bool]:
        """Ask what is left, write the run's files; the summary, and whether it was interrupted."""
        with RunLogs(self.folder, redact=self.config.secrets()) as logs:
            questions = RunSession(self.config, self.store, self.folder, logs, self.console)
            tries = self._tries(samples)
            self.missing.tell()
            self._announce(len(tries), len(samples) * self.config.run.epochs)
            self._warn_of_tuning(samples)
            logs.entry_point.info("run started", questions=len(tries), changes=dict(changes))
            stopped = questions.run(program, tries)
            if stopped is None and self._tries(samples, retry_errors=False):
                stopped = WITHOUT_RECORD
            session.end(stopped, self.config.model.gate_history() if self.config.needs_model else [])
            summary = write_reports(self.folder, self.store)
            logs.entry_point.info("run ended", stopped=stopped, accuracy=summary["accuracy"])
        return summary, questions.stop.interrupted

    def _check_budget(self) -> None:
        budget, spent = self.config.run.max_cost_usd, spent_usd(self.store, self.folder)
        if budget is not None and spent >= budget:
            raise UserError(f"the run has already spent ${spent:.4f} of run.max_cost_usd={budget:g}; give it more.")

    def _begin(self, samples: Sequence[Sample], facts: Mapping[str, str], changes: Mapping[str, str]) -> Session:
        run_id = self.store.meta().get("run_id") or uuid.uuid4().hex[:12]
        planned = [PlannedQuestion.of(sample) for sample in samples]
        if not self.config.run.resume and self.store.keys():  # it came to be since the configuration was checked
            raise UserError(f"{self.folder} already holds a run; go on with it by run.resume, or name a new folder.")
        if planned != self.store.planned():  # of this run, or of a process that died before its run began
            self.store.plan(planned, self.config.run.epochs, again=True)
        (self.folder / "config.yaml").write_text(facts["config"], encoding="utf-8")
        self._keep_prompts()
        before = self.store.meta()
        sets = [*kept_prompts(self.folder, before).values()]  # a resumed run may have had others before
        sets += [self.request.prompts] if self.request.prompts else []  # the copies do not say whether it was edited
        tuned = tuned_facts(sets, planned, json.loads(facts[FILES]), before)
        return Session(self.store, {"run_id": run_id, **facts, **tuned}, changes)

    def _keep_prompts(self) -> None:
        """The texts that the run was made with: the set itself may be edited later."""
        if self.request.prompts is not None:
            keep_prompts(self.folder, self.store, self.request.prompts)

    def _tries(self, samples: Sequence[Sample], retry_errors: bool | None = None) -> list[Try]:
        """What is left to run."""
        retry = self.config.run.retry_errors if retry_errors is None else retry_errors
        by_id = {sample.id: sample for sample in samples}
        sample_keys = list_pending(list(by_id), self.config.run.epochs, self.store.keys(), retry)
        return [(by_id[sample_key.sample_id], sample_key) for sample_key in sample_keys]

    def _announce(self, left: int, planned: int) -> None:
        if self.config.simulated:
            self.console.print(SIMULATED_NOTICE, style="bold yellow")
        for told in self.notes:
            self._line(told)
        if self.request.prompts and (note := edited_note(self.request.prompts)):
            self._line(note)
        if left < planned:
            self._line(f"going on with {self.folder.name}: {left} of {planned} answers are still to be had")
        if self.config.needs_model and not self.config.model.simulated and left:
            self._line(estimate(self.config, left))

    def _warn_of_tuning(self, samples: Sequence[Sample]) -> None:
        used, scored = used_to_tune(self.store.meta()), {each.id for each in samples if each.target is not None}
        if used and (warning := used.among(scored).warning(len(scored), len(samples) - len(scored))):
            self._line(f"warning: {warning}")

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
