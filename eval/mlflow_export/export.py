"""One run's way from its store into MLflow, step by step. Each step may fail and be done again; none changes the run.

export = Export(folder, LocalTracking(), redact=str)
export.begin()                     # the run in MLflow
export.show()                      # its params, tags, prompts
export.send_new()                  # records that the store has by now: as often as one likes
export.end()                       # metrics, files, and the run closed as FINISHED or KILLED
export.count()                     # {"traces": {"store": 64, "mlflow": 64}, …}
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval.config.tracking import Tracking
from eval.mlflow_export.completeness import (
    Counts,
    Expected,
    compare_counts,
    compare_files,
    compare_metrics,
    count_in_mlflow,
    trace_ids,
)
from eval.mlflow_export.run_metrics import RunNumbers
from eval.mlflow_export.run_page import (
    MAX_TAG_CHARS,
    RunPage,
    build_page,
    build_run_name,
    read_end_ms,
    read_start_ms,
    read_status,
    write_artifacts,
    write_page,
)
from eval.mlflow_export.sending import BATCH_CHARS, BATCH_TRACES, HEARTBEAT_TAG, Sent, TrackedRun, open_run
from eval.mlflow_export.sweep_page import build_parent_tags
from eval.mlflow_export.values import derive_assessment_id, derive_trace_id, get_record_key, truncate
from eval.reports.files import write_summary
from eval.reports.from_store import summarise_store
from eval.runs.folder import DATABASE, read_kept_prompts
from eval.runs.mlflow_state import ExportState
from eval.runs.record import Record
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet

SUMMARY = "summary.json"
COMPLETE_TAG = "harness.in_mlflow"  # "complete", or what is missing there


class Export:
    """Holds the run's store open for reading, and no more of it in memory than one batch of records."""

    def __init__(self, folder: Path, settings: Tracking, redact: Callable[[str], str]) -> None:
        """
        Args:
            folder: of the run; its process may be writing there.
            settings: where MLflow is.
            redact: takes secrets out of a text.

        Raises:
            StoreError: the run's store cannot be read.
        """
        self.folder, self.settings, self.redact = folder, settings, redact
        self.store = RunStore(folder / DATABASE, read_only=True)
        self.state = ExportState(uri=settings.shown_uri, experiment=settings.experiment)
        self.unsent = 0  # records that were read for the page's numbers alone
        self._expected = Expected()
        self.sent = Sent()  # what went to MLflow
        self.refused: list[str] = []  # sample ids of records that MLflow does not take
        self._run: TrackedRun | None = None
        self._row = 0  # the last one that is dealt with
        self._there: set[str] = set()  # ids of traces that MLflow had before
        self._numbers = RunNumbers()
        self._page = RunPage()

    @property
    def run(self) -> TrackedRun:
        """The run in MLflow, found or made at the first call."""
        if self._run is None:
            info = self.store.read_info()
            tags = {**info.origin, **build_parent_tags(self.settings, info.sweep), HEARTBEAT_TAG: _now()}
            name = build_run_name(info, self.folder.name)
            run = open_run(self.settings, info.run_id, name=name, start_ms=read_start_ms(info), tags=tags)
            self._there = trace_ids(run)
            self.state = replace(self.state, experiment_id=run.experiment_id, run_id=run.run_id)
            self._run = run  # last: an attempt that failed half-way is made again
        return self._run

    @property
    def read(self) -> Sent:
        """What the records read so far make."""
        return self._expected.sent

    @property
    def is_open(self) -> bool:
        return self._run is not None

    def begin(self) -> None:
        """Show the run as running."""
        self.run.beat(_now())  # before `begin`: a run that is resumed must not look dead to another that starts now
        self.run.begin()

    def show(self) -> None:
        """Show what it is that runs now."""
        self._write_page(None)
        self._register_prompts(is_now=True)

    def beat(self) -> None:
        self.run.beat(_now())

    def send_new(self) -> int:
        """Send the next batch of records, if there are any.

        Returns:
            How many there were, those that MLflow had already included.
        """
        row, records = self._next_batch()
        self._send([record for record in records if not self._has(record)])
        self._dealt_with(row, records)
        return len(records)

    def send_one_by_one(self) -> int:
        """The same for a batch that was refused as a whole: what is refused alone is left out, and counted."""
        row, records = self._next_batch()
        for record in records:
            try:
                self._send([] if self._has(record) else [record])
            except Exception:  # noqa: BLE001 - whatever MLflow has against this record, the others must not wait for it
                self.refused.append(record.sample_id)
        self._dealt_with(row, records)
        return len(records)

    def _send(self, records: list[Record]) -> None:
        """A try that another replaces loses its verdict, or MLflow's averages would count both; its error stays."""
        from eval.mlflow_export.assessments import CORRECT

        self.sent = self.sent.plus(self.run.send(records))
        for record in records:
            for attempt in range(1, record.attempt):
                key = (*get_record_key(record)[:3], attempt)
                self.run.tracing.delete_assessment(derive_trace_id(key), derive_assessment_id(key, CORRECT))

    def read_rest(self) -> None:
        """What there was no time to send counts in the page's numbers all the same."""
        while (batch := self._next_batch())[1]:
            self.unsent += sum(not self._has(record) for record in batch[1])
            self._dealt_with(*batch)

    def send_all_again(self) -> None:
        """From the first record on, also what seems to be there: a crash leaves traces without their spans."""
        self._there, self._row, self._expected, self._numbers = set(), 0, Expected(), RunNumbers()
        self.refused.clear()
        self.unsent = 0

    def _has(self, record: Record) -> bool:
        return derive_trace_id(get_record_key(record)) in self._there

    def _next_batch(self) -> tuple[int, list[Record]]:
        row, chars, records = self._row, 0, []
        for row, line in self.store.lines_after(self._row):  # noqa: B007 - also where the next batch begins
            records.append(Record.from_dict(json.loads(line)))
            chars += len(line)
            if len(records) >= BATCH_TRACES or chars >= BATCH_CHARS:
                break
        return row, records

    def _dealt_with(self, row: int, records: list[Record]) -> None:
        for record in records:
            self._numbers.add(record)
            self._expected.add(record)
        self._row = row

    def end(self) -> None:
        """The whole page, the files, and the run closed."""
        self.read_rest()
        summary = self._summary()
        self._write_page(summary)
        self._register_prompts(is_now=False)
        self._write_files()
        self.close_run(summary)

    def close_run(self, summary: Mapping[str, Any] | None = None) -> None:
        """A run that did not come to its end, or whose process did not live to say so, is KILLED."""
        info, state, last = self.store.read_info(), self.store.read_state(), self.store.last_finished_at()
        ended = read_status(summary or self._summary()) == "FINISHED" and state.finished is not False
        known = [read_end_ms(state), _ms(last) if last else None, _ms(info.started_at) if info.started_at else None]
        status = "FINISHED" if ended else "KILLED"
        self.run.finish(status, max((moment for moment in known if moment), default=read_start_ms(info)))
        self.state = replace(self.state, status=status)

    def count(self) -> Counts:
        """The run's store and folder beside what MLflow has."""
        return {
            **compare_counts(self.read, count_in_mlflow(self.run)),
            **compare_metrics(self.run, self._page.metrics),
            **compare_files(self.run, self.folder, self._prompts()),
        }

    def say(self, warning: str | None) -> None:
        """On the run's page: whether all of the run is there."""
        self.run.client.set_tag(self.run.run_id, COMPLETE_TAG, truncate(warning or "complete", MAX_TAG_CHARS))

    def records_in_store(self) -> int:
        return len(self.store.finished_keys())

    def _summary(self) -> dict[str, Any]:
        return summarise_store(self.store)

    def _write_page(self, summary: Mapping[str, Any] | None) -> None:
        info = self.store.read_info()
        numbers = self._numbers.metrics(self.store.planned(), info.epochs) if summary else None
        page = build_page(info, summary, numbers, folder_name=self.folder.name, redact=self.redact)
        origin = {name: self.redact(text) for name, text in info.origin.items()}
        self._page = replace(page, tags={**origin, **page.tags})
        write_page(self.run, self._page)

    def _register_prompts(self, is_now: bool) -> None:
        if prompts := self._prompts():
            # Imported here: nothing else needs it, and a run may have no prompts.
            from eval.mlflow_export.prompt_registry import register_prompts

            register_prompts(self.run, *prompts.values(), is_now=is_now)

    def _write_files(self) -> None:
        prompts = self._prompts()
        self._link_summary()
        compared_now = compare_files(self.run, self.folder, prompts, known_only=True)
        if any(each["store"] != each["mlflow"] for each in compared_now.values()):
            write_artifacts(self.run, self.folder, prompts)

    def _link_summary(self) -> None:
        """So that the copy in MLflow, too, names its run. The run's own process has written the file and waits."""
        try:
            summary = json.loads((self.folder / SUMMARY).read_text("utf-8"))
        except (OSError, ValueError):
            return
        if summary.get("mlflow") != self.run.link:
            write_summary(self.folder, {**summary, "mlflow": self.run.link})

    def _prompts(self) -> dict[str, PromptSet]:
        return read_kept_prompts(self.folder, self.store.read_info().prompts)

    def close(self) -> None:
        self.store.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
