"""Whether memory stays flat in a long run with tracking=local: both processes' resident sets, twice a second.

The evaluating process is looked at by how many questions were asked, the exporter by how many traces MLflow has: it may
be behind. Linux only, for `/proc`.
"""

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from eval.runs.mlflow_state import read_state
from tests.bench.contenders import check_summary
from tests.bench.measuring import CALLS, FailedError, measure
from tests.bench.tables import Cell, Table

MEMORY_LATENCY_SECONDS = 0.02
LIMIT_SECONDS = 600.0
_EVERY_SECONDS = 0.5
Sample = tuple[float, float]  # questions, MB


@dataclass
class Watched:
    """A run's two processes, looked at until the first has ended."""

    database: Path  # of MLflow
    evaluating: list[Sample] = field(default_factory=list)
    exporter: list[Sample] = field(default_factory=list)

    def watch(self, pid: int, requests: Callable[[], float]) -> None:
        Thread(target=self._look, args=(pid, requests), daemon=True).start()

    def _look(self, pid: int, requests: Callable[[], float]) -> None:
        sent = 0
        with suppress(OSError):  # the model server has gone, and with it the run
            while megabytes := resident_mb(pid):
                self.evaluating.append((requests() / CALLS, megabytes))
                for child in _exporters(pid):
                    sent = max(sent, _traces(self.database))
                    self.exporter.append((sent, resident_mb(child)))
                time.sleep(_EVERY_SECONDS)


def memory(command: Callable[[str, Path], list[str]], folder: Path, at: Sequence[int]) -> Table:
    """The largest resident set up to so many questions, and until the process had ended."""
    number, place = max(at), folder / "memory"
    columns = ("", *(f"MB up to {each:,} questions" for each in at), "MB to its end", "growth, MB", "samples")
    table = Table(
        f"Memory with tracking=local: {number:,} questions, 64 at once, {MEMORY_LATENCY_SECONDS:g} s a call", columns
    )
    if sys.platform != "linux":
        table.notes.append("not measured: there is no /proc")
        return table
    watched = Watched(place.with_name(f"{place.name}-mlflow") / "mlflow.db")
    try:
        run = measure(
            lambda url: command(url, place), number * CALLS, MEMORY_LATENCY_SECONDS, LIMIT_SECONDS, watched.watch
        )
        check_summary(place, number)
    except FailedError as error:
        table.failed("memory", number, str(error)[-300:])
        return table
    for title, samples in (("evaluating process", watched.evaluating), ("exporter", watched.exporter)):
        table.add(_row(title, samples, at))
        table.keep(title, number, [[round(count), round(megabytes, 1)] for count, megabytes in samples])
    if state := read_state(place):
        traces = state.counts.get("traces", {})
        table.notes.append(
            f"questions {run.served_seconds:.1f} s; exporter {state.cpu_seconds:.1f} s of CPU, "
            f"{state.seconds_after_the_end:.1f} s after the run's end, {traces.get('mlflow')} of {number} traces"
        )
    table.notes.append(f"growth: from {min(at):,} to {number:,} questions")
    return table


def _row(title: str, samples: Sequence[Sample], at: Sequence[int]) -> list[Cell]:
    # With the last number reached the questions are over; what comes then is the end of the process.
    over = next((index + 1 for index, (count, _) in enumerate(samples) if count >= max(at)), len(samples))
    peaks = [max((mb for count, mb in samples[:over] if count <= each), default=0.0) for each in at]
    whole = max((mb for _, mb in samples), default=0.0)
    return [title, *(round(peak, 1) for peak in peaks), round(whole, 1), round(peaks[-1] - peaks[0], 1), len(samples)]


def resident_mb(pid: int) -> float:
    """0.0 when it has ended."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _exporters(pid: int) -> list[int]:
    """Its children that are exporters: none before the first question."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        return [
            int(each)
            for each in children
            if b"eval.mlflow_export.run_export" in Path(f"/proc/{each}/cmdline").read_bytes()
        ]
    except OSError:
        return []


def _traces(database: Path) -> int:
    """0 while there is no table yet, and when a look meets a lock."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=0.2)) as store:
            return int(store.execute("SELECT COUNT(*) FROM trace_info").fetchone()[0])
    except sqlite3.Error:
        return 0
