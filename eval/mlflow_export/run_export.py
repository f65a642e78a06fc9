"""What an evaluation sends to MLflow of its store: a page with params, tags and metrics, a trace a record, files."""

import json
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from eval.analysis.summary.summary import Counts as SummaryCounts
from eval.analysis.summary.summary import Summary
from eval.config.tracking import Tracking
from eval.mlflow_export.exporter import Counts, Export
from eval.mlflow_export.tracked_run import (
    NOTE_TAG,
    TrackedRun,
    flatten_numbers,
    flatten_params,
    open_run,
    read_start_ms,
)
from eval.reports.run_report.page import write_reports
from eval.runs.folder import PROMPTS_FOLDER
from eval.runs.logs import Log
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.errors import UserError

BATCH_TRACES = 20  # in one call; larger batches were no quicker
BATCH_CHARS = 4_000_000  # of their records: servers refuse a body of many megabytes
FILES = (
    *("summary.json", "answers.jsonl", "records.jsonl", "report.html", "config.yaml", "correlation_ids.jsonl", "logs"),
    PROMPTS_FOLDER,
)


class RunExport(Export):
    """Holds no more of the store in memory than one batch of records."""

    def __init__(self, folder: Path, settings: Tracking, log: Log) -> None:
        super().__init__(folder, settings, log)
        self._there: Container[str] = ()  # ids of traces that MLflow had before
        self._row, self._read = 0, Counter[str]()  # the last row that is done, and what there is up to it

    def open_run(self) -> TrackedRun:
        info = self.store.read_info()
        if why := info.describe_gold():
            raise UserError(f"{self.folder.name} is not sent to MLflow: {why}.")
        name = _build_name(info, self.folder.name)
        run = open_run(self.settings, info.run_id, name=name, start_ms=read_start_ms(info), tags=info.origin)
        self._there = run.read_trace_ids()
        return run

    def send_new(self) -> int:
        """Send the next batch of records. An attempt that another replaces loses its verdict: averages count both."""
        from eval.mlflow_export.traces import CORRECT, derive_assessment_id, derive_trace_id, list_shown_steps

        row, records = self._read_batch()
        experiment_id, tracing = self.run.experiment_id, self.run.tracing
        self._send([each for each in records if derive_trace_id(each, experiment_id) not in self._there])
        for record in records:  # also those that were there: the process that sent them may have died before this
            for attempt in range(1, record.attempt):
                replaced = replace(record, attempt=attempt)
                verdict_id = derive_assessment_id(replaced, experiment_id, CORRECT)
                tracing.delete_assessment(derive_trace_id(replaced, experiment_id), verdict_id)
        self._row = row
        self._read.update(traces=len(records), spans=sum(len(list_shown_steps(each)) for each in records))
        return len(records)

    def _send(self, records: Sequence[Record]) -> None:
        """Send records in one call, and one at a time if MLflow refuses that: the others do not wait for a bad one."""
        from eval.mlflow_export.traces import build_trace

        try:
            run = self.run
            self.sent += run.send([build_trace(record, run.experiment_id, run.run_id) for record in records])
        except Exception as error:  # noqa: BLE001 - whatever MLflow has against one, the others must not wait for it
            self.run.mark("not complete yet")  # raises if MLflow takes nothing at all
            if len(records) == 1:
                self.refusal = self.describe_failure(error)
            for record in records if len(records) > 1 else ():
                self._send([record])

    def send_all_again(self) -> None:
        """Begin with the first record, also with what seems to be there: a crash leaves traces without their spans."""
        self._there, self._row, self._read, self.refusal = (), 0, Counter(), ""

    def _read_batch(self) -> tuple[int, list[Record]]:
        """Read the next records, as many as one call should carry, and the row of the last one."""
        row, chars, records = self._row, 0, []
        for row, line in self.store.lines_after(self._row):  # noqa: B007 - also where the next batch begins
            records.append(Record.from_dict(json.loads(line)))
            chars += len(line)
            if len(records) >= BATCH_TRACES or chars >= BATCH_CHARS:
                break
        return row, records

    def count(self) -> Counts:
        return {name: {"store": self._read[name], "mlflow": n} for name, n in self.run.count().items()}

    def end(self) -> None:
        """Write the run's own page, send that in MLflow and the files, and close the run.

        It is KILLED if questions are left, or if its process died before it could say otherwise.
        """
        summary, info = write_reports(self.folder, self.store), self.store.read_info()
        tags = {**info.origin, **_list_tags(info, summary), "run_folder": self.folder.name}
        self.run.write_page(flatten_params(info), tags, collect_metrics(summary))
        is_whole = not (summary.stopped or self.store.read_state().finished is False)
        self.end_run(is_whole, self.store.last_finished_at(), *FILES)


def _build_name(info: RunInfo, folder_name: str) -> str:
    """Return the name given to the run, else system and model before its folder's name; a simulation is marked.

    Lists show little more than its beginning. No two folders of runs have the same name.
    """
    asked = " ".join(filter(None, (info.system, info.model)))
    name = str(info.part("run").get("name") or " · ".join(filter(None, (asked, folder_name))))
    return f"{name} (simulated)" if info.simulated else name


def _list_tags(info: RunInfo, summary: Summary) -> dict[str, str]:
    """Return the tags of a run; empty ones are not sent."""
    notes = [summary.notice, summary.stopped and f"Stopped: {summary.stopped}"]
    found = {
        "prompts_sha256": info.prompts_sha256,
        "dataset_sha256": info.task.dataset_sha256,
        "task_version": info.task.task_version,
        "system": info.system,
        "model": info.model,
        "prompts": summary.prompts or "none",
        "tools": ", ".join(sorted(info.part("system").get("tools") or {})),
        "harness.command": "" if info.command is None else json.dumps(info.command),
        "harness.rescored_from": info.rescored_from,
        "simulated": json.dumps(info.simulated),
        NOTE_TAG: "\n\n".join(each for each in notes if each),
    }
    if info.sweep:
        job, differs = str(info.sweep.job), " ".join(info.sweep.differs)
        found |= {"harness.sweep": info.sweep.id, "harness.sweep_job": job, "harness.sweep_differs": differs}
    return found


def collect_metrics(summary: Summary) -> dict[str, float]:
    """Return the numbers of `summary.json`, with its names; calls, tokens and cost are at the top."""

    def select(counts: SummaryCounts) -> dict[str, Any]:
        return {name: getattr(counts, name) for name in ("n", "score", "score_ci95")}

    first = {"accuracy": summary.accuracy, "score": summary.score}  # MLflow's table of runs begins with these
    found = first | summary.to_dict() | asdict(summary.usage) | {"usage": None, "version": None}
    found["by_level"] = {level: select(counts) for level, counts in summary.by_level.items()}
    found["by_tag"] = {
        tag: {value: select(counts) for value, counts in values.items()} for tag, values in summary.by_tag.items()
    }
    found["attribution"] = {each.title: asdict(each.points) for each in summary.attribution or ()}
    found["labels"] = summary.labels and {**asdict(summary.labels), "confusion": None}
    found["scorer_usage"] = asdict(summary.scorer_usage) if summary.scorer_usage.lm_calls else None
    return dict(flatten_numbers(found))
