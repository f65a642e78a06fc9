"""Progress of a run: a live bar on a terminal, plain lines anywhere else (a file, CI).

with RunProgress(66, Console(stderr=True)) as progress:
    progress.update(record)      # 12/66 done, 7 correct, 1 error, $0.0314, 3.2 s
"""

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from eval.cli.console import Console
from eval.runs.record import Record

LINE_INTERVAL_SECONDS = 1.0  # a plain line at most this often, so that a fast run does not flood a CI log


class RunProgress:
    """Counts finished records; `update` may be called from one thread or loop only."""

    def __init__(self, total: int, console: Console, line_interval_seconds: float = LINE_INTERVAL_SECONDS) -> None:
        """
        Args:
            total: of the answers to come: questions times epochs.
            console: where to.
            line_interval_seconds: between two plain lines.
        """
        self._total, self._console, self._line_interval_seconds = total, console, line_interval_seconds
        self._done = self._correct = self._errors = self._scored = 0
        self._cost_usd = 0.0
        self._started = time.monotonic()
        self._last_line = float("-inf")
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if self._console.is_terminal:
            columns = BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
            self._bar = Progress(*columns, console=self._console)
            self._bar.add_task(self._counts(), total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, record: Record) -> None:
        """Count one finished record."""
        self._done += 1
        self._correct += record.correct
        self._errors += record.error is not None
        self._scored += record.scored
        self._cost_usd += record.usage.at_least_usd + record.scorer_usage.at_least_usd
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self._done, description=self._counts())
        elif self._done >= self._total or time.monotonic() - self._last_line >= self._line_interval_seconds:
            self._print_line()

    def _print_line(self) -> None:
        self._last_line = time.monotonic()
        seconds = self._last_line - self._started
        self._console.print(f"{self._counts()}, {seconds:.1f} s", markup=False, highlight=False, soft_wrap=True)

    def _counts(self) -> str:
        correct = f", {self._correct} correct" if self._scored or not self._done else ", unscored"
        errors = f"{self._errors} error{'' if self._errors == 1 else 's'}"
        cost = f", ${self._cost_usd:,.4f}" if self._cost_usd else ""  # what is known of it
        return f"{self._done}/{self._total} done{correct}, {errors}{cost}"
