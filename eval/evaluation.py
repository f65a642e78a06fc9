"""One evaluation from a checked configuration to its exit code."""

import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from eval.benchmarks.example import Example
from eval.command import FAILURES, FINISHED, STOPPED
from eval.config import EvalConfig
from eval.logs import RunLogs
from eval.record import Record
from eval.reporting.files import write_files, write_summary
from eval.reporting.progress import RunProgress
from eval.reporting.summary import summarise
from eval.reporting.table import print_table
from eval.run_folder import make_run_folder
from eval.runner import Runner, StoppedError
from eval.selection import select
from eval.store import RunStore, StoreError
from eval.tracking import export_run
from mas.llm.loop import run_blocking
from mas.offline import SIMULATED_NOTICE
from mas.prompts import PromptSet, digest


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
    with config.system.open_resources() as resources:
        program = config.system.build(config.model, prompts, config.tools, resources)
        return _Run(config, resolved, prompts).execute(program, examples, split.bad_rows)


class _Run:
    """One run and its folder, from its first question to its last line."""

    def __init__(self, config: EvalConfig, resolved: dict[str, Any], prompts: PromptSet | None) -> None:
        self.config, self.resolved, self.prompts = config, resolved, prompts
        self.run_id = uuid.uuid4().hex[:12]
        self.console = Console()
        name = config.run.name or f"{config.system.name}_{config.model.name}_{config.data.name}"
        self.folder = make_run_folder("eval", name, config.run.dir)
        text = yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True)
        (self.folder / "config.yaml").write_text(text, encoding="utf-8")

    def execute(self, program: Any, examples: Sequence[Example], bad_rows: Sequence[str]) -> int:
        started = time.monotonic()
        if self.config.model.simulated:
            self.console.print(SIMULATED_NOTICE, style="bold yellow")
        with (
            RunLogs(self.folder, redact=self.config.model.secrets()) as logs,
            RunStore(self.folder / "run.db") as store,
        ):
            logs.entry_point.info("run started", run_id=self.run_id, questions=len(examples), bad_rows=len(bad_rows))
            stopped = self._questions(program, examples, logs, store)
            seconds = time.monotonic() - started
            summary = self._summary(store, seconds, bad_rows)
            write_files(self.folder, store.records(), summary, [example.id for example in examples])
            logs.entry_point.info("run ended", run_id=self.run_id, stopped=stopped, accuracy=summary["accuracy"])
        self._track(summary)
        self._show(summary, stopped, len(examples))
        return self._exit_code(summary, stopped)

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
                return "interrupted"
        return None

    def _runner(self, program: Any, logs: RunLogs, finished: Any) -> Runner:
        run = self.config.run
        return Runner(
            run_id=self.run_id,
            program=program,
            scorer=self.config.data.scorer,
            concurrency=run.concurrency,
            deadline_seconds=run.deadline_seconds,
            fail_fast=run.fail_fast,
            listener=logs.listener,
            redact=self._redacted,
            finished=finished,
        )

    def _redacted(self, text: str) -> str:
        for secret in self.config.model.secrets():
            text = text.replace(secret, "***")
        return text

    def _summary(self, store: RunStore, seconds: float, bad_rows: Sequence[str]) -> dict[str, Any]:
        return summarise(
            self.run_id,
            store.records(),
            simulated=self.config.model.simulated,
            wall_seconds=seconds,
            bad_rows=bad_rows,
        )

    def _track(self, summary: dict[str, Any]) -> None:
        tags = {
            "system": self.config.system.name,
            "model": self.config.model.name,
            "dataset": self.config.data.name,
            "split": self.config.split,
            "prompts": self.prompts.name if self.prompts else "none",
            "prompts_sha256": digest(self.prompts) if self.prompts else "",
            "run_folder": self.folder.name,
        }
        exported = export_run(self.config.tracking, self.folder, summary, self.resolved, tags)
        summary["mlflow"] = exported.link
        write_summary(self.folder, summary)
        if exported.warning:
            print(f"warning: {exported.warning}", file=sys.stderr)

    def _show(self, summary: dict[str, Any], stopped: str | None, wanted: int) -> None:
        print_table(summary, self.console)
        if stopped:
            self.console.print(f"stopped before the end, {summary['n']} of {wanted} done: {stopped}", markup=False)
        self.console.print(f"results: {_short(self.folder)}", markup=False, highlight=False, soft_wrap=True)

    def _exit_code(self, summary: dict[str, Any], stopped: str | None) -> int:
        if stopped:
            return STOPPED
        floor, accuracy = self.config.run.fail_under, summary["accuracy"]
        below = floor is not None and (accuracy is None or accuracy < floor)
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


def _short(folder: Path) -> str:
    """Relative to the current folder where it lies below it."""
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
