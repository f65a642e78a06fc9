"""What an evaluation sends to MLflow of its store: a page with params, tags and metrics, a trace a record, files."""

import json
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path

from eval.analysis.summary.summary import Summary
from eval.config.tracking import Tracking
from eval.mlflow_export.exporter import Counts, Export, Redact
from eval.mlflow_export.run_page import build_page, build_run_name, read_start_ms, write_page
from eval.mlflow_export.tracked_run import TrackedRun, open_run, to_ms
from eval.reports.run_report.page import write_reports
from eval.runs.folder import PROMPTS_FOLDER
from eval.runs.record import Record
from mas.runtime.errors import UserError

BATCH_TRACES = 20  # in one call; larger batches were no quicker
BATCH_CHARS = 4_000_000  # of their records: servers refuse a body of many megabytes
FILES = (
    *("summary.json", "answers.jsonl", "records.jsonl", "report.html", "config.yaml", "correlation_ids.jsonl", "logs"),
)


class RunExport(Export):
    """Holds no more of the store in memory than one batch of records."""

    def __init__(self, folder: Path, settings: Tracking, redact: Redact) -> None:
        super().__init__(folder, settings, redact)
        self._there: Container[str] = ()  # ids of traces that MLflow had before
        self._row, self._read = 0, Counter[str]()  # the last row that is done, and what there is up to it

    def open_run(self) -> TrackedRun:
        info = self.store.read_info()
        if why := info.describe_gold():
            raise UserError(f"{self.folder.name} is not sent to MLflow: {why}.")
        name = build_run_name(info, self.folder.name)
        run = open_run(self.settings, info.run_id, name=name, start_ms=read_start_ms(info), tags=info.origin)
        self._there = run.read_trace_ids()
        return run

    def show(self) -> None:
        self._write_page(None)

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
        found = self.run.count()
        return {name: {"store": self._read[name], "mlflow": n} for name, n in found.items()}

    def end(self) -> None:
        """Write the run's own page, send that in MLflow and the files, and close the run.

        It is KILLED if questions are left, or if its process died before it could say otherwise.
        """
        summary, state = write_reports(self.folder, self.store), self.store.read_state()
        self._write_page(summary)
        info = self.store.read_info()
        self.send_files(*FILES, PROMPTS_FOLDER)
        status = "KILLED" if summary.stopped or state.finished is False else "FINISHED"
        ended_at = self.store.last_finished_at()
        end_ms = to_ms(ended_at) if ended_at else read_start_ms(info)
        self.run.client.set_terminated(self.run.run_id, status, end_ms)
        self.state = replace(self.state, status=status)

    def _write_page(self, summary: Summary | None) -> None:
        write_page(self.run, build_page(self.store.read_info(), summary, self.folder.name))
