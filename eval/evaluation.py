"""One evaluation from a checked configuration to its exit code."""

import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any

import yaml
from rich.console import Console

from eval.benchmarks.example import Example
from eval.command import FAILURES, FINISHED, STOPPED
from eval.config import EvalConfig
from eval.logs import RunLogs
from eval.paths import shown
from eval.record import Record
from eval.reporting.files import write_files, write_summary
from eval.reporting.progress import RunProgress
from eval.reporting.summary import summarise
from eval.reporting.table import print_table
from eval.run_folder import make_run_folder
from eval.runner import Runner, StoppedError, not_run
from eval.selection import select
from eval.store import RunStore, StoreError
from eval.tracking import export_run
from mas.errors import UserError
from mas.llm.loop import run_blocking
from mas.offline import SIMULATED_NOTICE
from mas.prompts import PromptSet, digest

INTERRUPTED = "interrupted by Ctrl-C"


def evaluate(config: EvalConfig, resolved: dict[str, Any], prompts: PromptSet | None) -> int:
    """Run the questions, keep and show what came of them.

    Args:
        config: already checked.
        resolved: the same as plain dictionaries, to be saved with the run.
        prompts: the set that the configuration names.

    Returns:
        The exit code (`eval.command`).

    Raises:
        UserError: a mistake seen only now, and before the first question: a bad row, a tool that cannot be loaded.
    """
    split = config.data.load(config.split)
    examples = select(split.examples, config.selection)
    if config.run.fail_under is not None and not any(example.target is not None for example in examples):
        raise UserError("run.fail_under is set, but none of the questions has a gold answer; leave it out.")
    with config.system.open_resources() as resources:
        program = config.system.build(config.model, prompts, config.tools, resources)
        run = _Run(config, resolved, prompts)
        try:
            return run.execute(program, examples, split.bad_rows)
        except (OSError, StoreError) as error:  # a full disk: questions cannot fail this way, the run's own files can
            print(f"stopped: {error}; what is finished is in {shown(run.folder / 'run.db')}", file=sys.stderr)
            return STOPPED


class _Run:
    """One run and its folder, from its first question to its last line."""

    def __init__(self, config: EvalConfig, resolved: dict[str, Any], prompts: PromptSet | None) -> None:
        self.config, self.resolved, self.prompts = config, resolved, prompts
        self.run_id = uuid.uuid4().hex[:12]
        self.console = Console()
        name = config.run.name or f"{config.system.name}_{config.model_name}_{config.data.name}"
        self.folder = make_run_folder("eval", name, config.run.dir)
        text = yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True)
        (self.folder / "config.yaml").write_text(text, encoding="utf-8")

    def execute(self, program: Any, examples: Sequence[Example], bad_rows: Sequence[str]) -> int:
        started = time.monotonic()
        if self.config.simulated:
            self.console.print(SIMULATED_NOTICE, style="bold yellow")
        with (
            RunLogs(self.folder, redact=self.config.secrets()) as logs,
            RunStore(self.folder / "run.db") as store,
        ):
            logs.entry_point.info("run started", run_id=self.run_id, questions=len(examples), bad_rows=len(bad_rows))
            stopped = self._questions(program, examples, logs, store)
            if not stopped and len(store.finished_keys()) < len(examples):
                stopped = "some questions ended without a record"
            seconds = time.monotonic() - started
            summary = self._summary(store, examples, seconds, bad_rows, stopped)
            write_files(self.folder, store.records(), summary, [example.id for example in examples])
            logs.entry_point.info("run ended", run_id=self.run_id, stopped=stopped, accuracy=summary["accuracy"])
        self._track(summary)
        self._show(summary)
        if stopped == INTERRUPTED:
            raise KeyboardInterrupt  # a multirun must not go on to its next job
        return self._exit_code(summary)

    def _questions(self, program: Any, examples: Sequence[Example], logs: RunLogs, store: RunStore) -> str | None:
        """Run them all; the reason, if the run stopped before its end."""
        with RunProgress(len(examples), self.console) as progress:

            def finished(record: Record) -> None:
                store.write(record)
                progress.update(record)
                _log_question(record, logs)

            try:
                run_blocking(self._runner(program, logs, finished).run(examples))
            except (StoppedError, StoreError) as error:
                return str(error)
            except KeyboardInterrupt:
                return INTERRUPTED
        return None

    def _runner(self, program: Any, logs: RunLogs, finished: Any) -> Runner:
        run = self.config.run
        return Runner(
            run_id=self.run_id,
            program=program,
            scorer=self.config.scorer,
            concurrency=run.concurrency,
            deadline_seconds=run.deadline_seconds,
            fail_fast=run.fail_fast,
            listener=logs.listener,
            redact=self.config.redact,
            finished=finished,
        )

    def _summary(
        self,
        store: RunStore,
        examples: Sequence[Example],
        seconds: float,
        bad_rows: Sequence[str],
        stopped: str | None,
    ) -> dict[str, Any]:
        """The numbers over all questions of the run; those it never came to count as wrong: stopping flatters none."""
        done = {example_id for example_id, _, _ in store.finished_keys()}
        missing = [not_run(self.run_id, example) for example in examples if example.id not in done]
        return summarise(
            self.run_id,
            [*store.records(), *missing],
            simulated=self.config.simulated,
            wall_seconds=seconds,
            bad_rows=bad_rows,
            stopped=stopped,
        )

    def _track(self, summary: dict[str, Any]) -> None:
        tags = {
            "system": self.config.system.name,
            "model": self.config.model_name,
            "scorer": type(self.config.scorer).__name__,
            "dataset": self.config.data.name,
            "split": self.config.split,
            "prompts": self.prompts.name if self.prompts else "none",
            "prompts_sha256": digest(self.prompts) if self.prompts else "",
            "run_folder": self.folder.name,
        }
        params = self.resolved if self.config.needs_model else {**self.resolved, "model": {"name": "none"}}
        exported = export_run(self.config.tracking, self.folder, summary, params, tags)
        summary["mlflow"] = exported.link
        write_summary(self.folder, summary)
        if exported.warning:
            print(f"warning: {exported.warning}", file=sys.stderr)

    def _show(self, summary: dict[str, Any]) -> None:
        print_table(summary, self.console)
        self.console.print(f"results: {shown(self.folder)}", markup=False, highlight=False, soft_wrap=True)

    def _exit_code(self, summary: dict[str, Any]) -> int:
        if summary["stopped"]:
            return STOPPED
        floor, accuracy = self.config.run.fail_under, summary["accuracy"]
        below = floor is not None and accuracy < floor
        if below:
            self.console.print(f"accuracy {accuracy} is below run.fail_under={floor}", markup=False)
        return FAILURES if below or summary["n_error"] else FINISHED


def _log_question(record: Record, logs: RunLogs) -> None:
    log = logs.entry_point.error if record.error else logs.entry_point.info
    log(
        "question finished",
        task_id=record.example_id,
        correlation_id=record.thread_id,
        seconds=round(record.wall_seconds, 3),
        error=record.error,
        error_component=record.error_component,
    )
