"""Export of one evaluation from its store to MLflow, step by step.

python -m eval.mlflow_export.run_export FOLDER      started by ExporterLauncher

export = RunExport(folder, LocalTracking(), redact=str)
export.begin()                     # the run in MLflow
export.show()                      # its params, tags, prompts
export.send_new()                  # records that the store has by now, a batch at a time
export.end()                       # metrics, files, and the run closed as FINISHED or KILLED
export.count()                     # {"traces": {"store": 64, "mlflow": 64}, …}
"""

import json
from dataclasses import replace
from pathlib import Path

from eval.analysis.attribution.run_attribution import attribute_run
from eval.analysis.human_review import attach_labels, find_gold_folder
from eval.analysis.summary.from_store import summarise_store
from eval.analysis.summary.summary import Summary, read_summary
from eval.config.tracking import Tracking
from eval.mlflow_export.completeness import (
    ExpectedCounts,
    compare_counts,
    compare_files,
    compare_metrics,
    count_in_mlflow,
    read_trace_ids,
)
from eval.mlflow_export.exporter_process import Counts, Export, Redact, run_exporter
from eval.mlflow_export.prompt_registry import name_owner, register_prompts
from eval.mlflow_export.run_page import (
    MAX_TAG_CHARS,
    RunNumbers,
    RunPage,
    build_page,
    build_run_name,
    read_end_ms,
    read_start_ms,
    read_status,
    write_artifacts,
    write_page,
)
from eval.mlflow_export.sweep_export import build_parent_tags
from eval.mlflow_export.tracked_run import (
    BATCH_CHARS,
    BATCH_TRACES,
    HEARTBEAT_TAG,
    Sent,
    TrackedRun,
    format_now,
    open_run,
    to_ms,
)
from eval.mlflow_export.values import derive_assessment_id, derive_trace_id, get_record_key, truncate
from eval.reports.files import SUMMARY, write_summary
from eval.runs.folder import DATABASE, read_kept_prompts
from eval.runs.record import Record
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet

COMPLETE_TAG = "harness.in_mlflow"  # "complete", or what is missing there
_REFUSALS = 3  # of one batch by an MLflow that works; then its records are sent one by one


class RunExport(Export):
    """Holds the run's store open for reading, and no more of it in memory than one batch of records."""

    required_counts = ("traces", "spans", "assessments")

    def __init__(self, folder: Path, settings: Tracking, redact: Redact) -> None:
        """
        Raises:
            StoreError: the run's store cannot be read.
        """
        super().__init__(folder, settings, redact)
        self.store = RunStore(folder / DATABASE, read_only=True)
        self.sent = Sent()  # what this process has sent
        self.expected = ExpectedCounts()  # of the records read so far
        self._missing = 0  # records that MLflow does not accept, or that were read for the page's numbers alone
        self._refusals = 0  # of the next batch
        self._row = 0  # the last one that is done
        self._gold = find_gold_folder(folder.resolve())
        self._there: set[str] = set()  # ids of traces that MLflow had before
        self._numbers = RunNumbers()
        self._page = RunPage()

    def open_run(self) -> TrackedRun:
        info = self.store.read_info()
        tags = {**info.origin, **build_parent_tags(self.settings, info.sweep), HEARTBEAT_TAG: format_now()}
        name = build_run_name(info, self.folder.name)
        run = open_run(self.settings, info.run_id, name=name, start_ms=read_start_ms(info), tags=tags)
        self._there = read_trace_ids(run)
        return run

    def show(self) -> None:
        self._write_page(None)
        self._register_prompts(is_now=True)

    def send_new(self) -> int:
        """Send the next batch of records; one by one, without those that are refused, if it was refused as a whole."""
        row, records = self._read_batch()
        new = [record for record in records if not self._has(record)]
        if self._refusals < _REFUSALS:
            self._send(new)
        else:
            for record in new:
                try:
                    self._send([record])
                except Exception:  # noqa: BLE001 - whatever MLflow has against it, the others must not wait for it
                    self._missing += 1
        self._refusals = 0
        self._finish_batch(row, records)
        return len(records)

    def note_refusal(self) -> None:
        self._refusals += 1

    def _send(self, records: list[Record]) -> None:
        """Send records. An attempt that another replaces loses its verdict: MLflow's averages would count both."""
        from eval.mlflow_export.assessments import CORRECT

        self.sent = self.sent.plus(self.run.send(records))
        for record in records:
            for attempt in range(1, record.attempt):
                key = (*get_record_key(record)[:3], attempt)
                self.run.tracing.delete_assessment(derive_trace_id(key), derive_assessment_id(key, CORRECT))

    def send_all_again(self) -> None:
        """Begin with the first record, also with what seems to be there: a crash leaves traces without their spans."""
        self._there, self._row, self.expected, self._numbers = set(), 0, ExpectedCounts(), RunNumbers()
        self._missing = 0

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

    def _finish_batch(self, row: int, records: list[Record]) -> None:
        for record in records:
            self._numbers.add(record)
            self.expected.add(record)
        self._row = row

    def end(self) -> None:
        """Write the whole page and the files, and close the run."""
        while (batch := self._read_batch())[1]:  # there was no time to send these; the page's numbers count them
            self._missing += sum(not self._has(record) for record in batch[1])
            self._finish_batch(*batch)
        summary = summarise_store(self.store, attribute_run(self.store))
        self._write_page(summary)
        self._register_prompts(is_now=False)
        self._link_summary()
        files = compare_files(self.run, self.folder, prompts := self._prompts(), known_only=True)["files"]
        if files["store"] != files["mlflow"]:
            write_artifacts(self.run, self.folder, prompts)
        self._close_run(summary)

    def close_run(self) -> None:
        self._close_run(summarise_store(self.store))

    def _close_run(self, summary: Summary) -> None:
        """Close the run; it is KILLED if questions are left, or if its process died before it could say otherwise."""
        state, last = self.store.read_state(), self.store.last_finished_at()
        ended = read_status(summary) == "FINISHED" and state.finished is not False
        status = "FINISHED" if ended else "KILLED"
        moments = [read_end_ms(state), to_ms(last) if last else None, read_start_ms(self.store.read_info())]
        self.run.finish(status, max(moment for moment in moments if moment))
        self.state = replace(self.state, status=status)

    def count(self) -> Counts:
        return {
            **compare_counts(self.expected.sent, count_in_mlflow(self.run)),
            **compare_metrics(self.run, self._page.metrics),
            **compare_files(self.run, self.folder, self._prompts()),
        }

    def count_sent(self) -> Counts:
        in_mlflow = self.expected.sent.traces - self._missing
        return {"traces": {"store": len(self.store.list_finished_keys()), "mlflow": in_mlflow}}

    def show_warning(self, warning: str | None) -> None:
        self.run.client.set_tag(self.run.run_id, COMPLETE_TAG, truncate(warning or "complete", MAX_TAG_CHARS))

    def describe_sent(self) -> str:
        if not self.sent.traces:
            return "sent nothing new"
        return "sent " + ", ".join(f"{number} {name}" for name, number in self.sent._asdict().items())

    def _write_page(self, summary: Summary | None) -> None:
        info = self.store.read_info()
        numbers = self._numbers.build_metrics() if summary else None
        page = build_page(info, summary, numbers, folder_name=self.folder.name, redact=self.redact)
        origin = {name: self.redact(text) for name, text in info.origin.items()}
        self._page = replace(page, tags={**origin, **page.tags})
        write_page(self.run, self._page)

    def _register_prompts(self, is_now: bool) -> None:
        if prompts := self._prompts():
            system = self.store.read_info().part("system")
            register_prompts(self.run, *(name_owner(each, system) for each in prompts.values()), is_now=is_now)

    def _link_summary(self) -> None:
        """Add the link to `summary.json`, for its copy in MLflow. The run's own process has written it and waits."""
        try:
            summary = read_summary(self.folder / SUMMARY)
        except (OSError, ValueError):
            return
        if summary.mlflow != self.run.link:
            write_summary(self.folder, replace(summary, mlflow=self.run.link))

    def _prompts(self) -> dict[str, PromptSet]:
        return read_kept_prompts(self.folder, self.store.read_info().prompts)

    def close(self) -> None:
        self.store.close()


if __name__ == "__main__":
    run_exporter(RunExport)
