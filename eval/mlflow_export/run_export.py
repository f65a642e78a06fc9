"""Export of one evaluation from its store to MLflow, step by step.

python -m eval.mlflow_export.run_export FOLDER      started by ExporterLauncher

export = RunExport(folder, LocalTracking(), redact=str)
export.show()                      # the run in MLflow: its params, tags, prompts
export.send_new()                  # records that the store has by now, a batch at a time
export.count()                     # {"traces": {"store": 64, "mlflow": 64}, …}
export.end()                       # metrics, files, and the run closed as FINISHED or KILLED
"""

import json
from dataclasses import replace
from pathlib import Path

from eval.analysis.attribution.run_attribution import attribute_run
from eval.analysis.human_review import attach_labels, find_gold_folder
from eval.analysis.summary.from_store import summarise_store
from eval.analysis.summary.summary import Summary
from eval.config.tracking import Tracking
from eval.mlflow_export.exporter_process import Counts, Export, Redact, describe_failure, run_exporter
from eval.mlflow_export.prompt_registry import name_owner, register_prompts
from eval.mlflow_export.run_page import (
    build_page,
    build_run_name,
    compute_latencies,
    read_end_ms,
    read_start_ms,
    write_artifacts,
    write_page,
)
from eval.mlflow_export.tracked_run import Sent, TrackedRun, open_run
from eval.mlflow_export.values import derive_assessment_id, derive_trace_id, get_record_key
from eval.runs.folder import DATABASE, read_kept_prompts
from eval.runs.record import Record
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet

BATCH_TRACES = 20  # in one call; larger batches were no quicker
BATCH_CHARS = 4_000_000  # of their records: servers refuse a body of many megabytes


class RunExport(Export):
    """Holds the run's store open for reading, and no more of it in memory than one batch of records."""

    def __init__(self, folder: Path, settings: Tracking, redact: Redact) -> None:
        """
        Raises:
            StoreError: the run's store cannot be read.
        """
        super().__init__(folder, settings, redact)
        self.store = RunStore(folder / DATABASE, read_only=True)
        self.sent = Sent()  # what this process has sent
        self._gold = find_gold_folder(folder.resolve())
        self._there: set[str] = set()  # ids of traces that MLflow had before
        self._row, self._read = 0, Sent()  # the last one that is done, and what there is up to it

    def open_run(self) -> TrackedRun:
        info = self.store.read_info()
        name = build_run_name(info, self.folder.name)
        run = open_run(self.settings, info.run_id, name=name, start_ms=read_start_ms(info), tags=info.origin)
        self._there = run.read_trace_ids()
        return run

    def show(self) -> None:
        self._write_page(None)
        self._register_prompts(is_now=True)

    def send_new(self) -> int:
        """Send the next batch of records. An attempt that another replaces loses its verdict: averages count both."""
        from eval.mlflow_export.assessments import CORRECT

        row, records = self._read_batch()
        self._send([record for record in records if not self._has(record)])
        for record in records:  # also those that were there: the process that sent them may have died before this
            for attempt in range(1, record.attempt):
                key = (*get_record_key(record)[:3], attempt)
                self.run.tracing.delete_assessment(derive_trace_id(key), derive_assessment_id(key, CORRECT))
        self._row = row
        for record in records:
            self._read = self._read.plus(_measure(record))
        return len(records)

    def _send(self, records: list[Record]) -> None:
        """Send records in one call, and one at a time if MLflow refuses that: the others do not wait for a bad one."""
        try:
            self.sent = self.sent.plus(self.run.send(records))
        except Exception as error:  # noqa: BLE001 - whatever MLflow has against one, the others must not wait for it
            self.run.mark("not complete yet")  # raises if MLflow takes nothing at all
            if len(records) > 1:
                for record in records:
                    self._send([record])
            else:
                self.refusal = self.redact(describe_failure(error, self.settings.address()))

    def send_all_again(self) -> None:
        """Begin with the first record, also with what seems to be there: a crash leaves traces without their spans."""
        self._there, self._row, self._read, self.refusal = set(), 0, Sent(), ""

    def _has(self, record: Record) -> bool:
        """Return whether MLflow had the record; one that people have labelled since is sent again."""
        is_labelled = any(not each.is_applied for each in record.human)
        return not is_labelled and derive_trace_id(get_record_key(record)) in self._there

    def _read_batch(self) -> tuple[int, list[Record]]:
        """Read the next records, as many as one call should carry, and the row of the last one."""
        row, chars, records = self._row, 0, []
        for row, line in self.store.lines_after(self._row):  # noqa: B007 - also where the next batch begins
            records.append(Record.from_dict(json.loads(line)))
            chars += len(line)
            if len(records) >= BATCH_TRACES or chars >= BATCH_CHARS:
                break
        return row, list(attach_labels(records, self.store.read_info(), self._gold, keeps_withdrawn=True))

    def count(self) -> Counts:
        found, stored = self.run.count(), self._read
        for _, line in self.store.lines_after(self._row):  # none, unless MLflow refused everything
            stored = stored.plus(_measure(Record.from_dict(json.loads(line))))
        return {name: {"store": getattr(stored, name), "mlflow": getattr(found, name)} for name in Sent._fields}

    def end(self) -> None:
        """Write the whole page and the files, and close the run.

        It is KILLED if questions are left, or if its process died before it could say otherwise.
        """
        summary, state = summarise_store(self.store, attribute_run(self.store)), self.store.read_state()
        self._write_page(summary)
        self._register_prompts(is_now=False)
        write_artifacts(self.run, self.folder, self._read_prompts())
        status = "KILLED" if summary.stopped or state.finished is False else "FINISHED"
        self.run.finish(status, read_end_ms(self.store.read_info(), state, self.store.last_finished_at()))
        self.state = replace(self.state, status=status)

    def describe_sent(self) -> str:
        if not self.sent.traces:
            return "sent nothing new"
        return "sent " + ", ".join(f"{number} {name}" for name, number in self.sent._asdict().items())

    def _write_page(self, summary: Summary | None) -> None:
        info, numbers = self.store.read_info(), compute_latencies(self.store.final_records()) if summary else {}
        write_page(self.run, build_page(info, summary, numbers, folder_name=self.folder.name, redact=self.redact))

    def _register_prompts(self, is_now: bool) -> None:
        if prompts := self._read_prompts():
            system = self.store.read_info().part("system")
            register_prompts(self.run, *(name_owner(each, system) for each in prompts.values()), is_now=is_now)

    def _read_prompts(self) -> dict[str, PromptSet]:
        return read_kept_prompts(self.folder, self.store.read_info().prompts)

    def close(self) -> None:
        self.store.close()


def _measure(record: Record) -> Sent:
    from eval.mlflow_export.traces import list_shown_steps

    return Sent(1, len(list_shown_steps(record)))


if __name__ == "__main__":
    run_exporter(RunExport)
