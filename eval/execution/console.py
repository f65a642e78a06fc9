"""Output of a command on the terminal: tables and live lines, a run's progress, notes about missing services.

with RunProgress(66, Console()) as progress:
    progress.update(record)      # 12/66 done, 7 correct, 1 error, $0.03, 48.0 s, about 4 min left, about $0.17 in all
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import rich.console
from rich.progress import BarColumn, Progress, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from eval.runs.record import Record
from mas.llm import Traffic
from mas.runtime.terminal import UNSEEN, print_line

if TYPE_CHECKING:
    from eval.config.evaluation import EvalConfig
    from mas.system import Resources

SILENCE_SECONDS = 60.0  # without a finished answer, until a line tells why
LINE_INTERVAL_SECONDS = 1.0  # a plain line at most this often, so that a fast run does not flood a CI log
SEARCH_LINE_SECONDS = 30.0  # the same of a search, which takes hours
_LEAST_DONE = 3  # answers; from fewer nothing is projected


class Console(rich.console.Console):
    """A console that replaces controls inside texts; those that rich adds for colours and live lines are its own."""

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = UNSEEN.sub("\N{REPLACEMENT CHARACTER}", segment.text) if segment.control is None else segment.text
            yield segment if text == segment.text else Segment(text, segment.style)


class Output:
    """Lines of a run, printed on the terminal as they come, and the console of its progress and results."""

    shows_results = True

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()

    def print(self, text: str, error: bool = False, style: str | None = None) -> None:
        if error:
            print_line(text, error=True)
        else:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True, style=style)


class KeptOutput(Output):
    """Lines of a run that a Python program has started: kept for it. Only the progress is shown, on standard error."""

    shows_results = False

    def __init__(self, progress: bool) -> None:
        super().__init__(Console(stderr=True) if progress else Console(quiet=True))
        self.lines: list[str] = []

    def print(self, text: str, error: bool = False, style: str | None = None) -> None:
        self.lines.append(text)


class _LiveBar(Progress):
    """A bar and the time, with the description on lines of its own: a column next to the bar would be cut."""

    def get_renderables(self) -> Iterable[rich.console.RenderableType]:
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            yield Text(task.description)


class RunProgress:
    """Counts finished records: a live bar on a terminal, plain lines anywhere else (a file, CI).

    `update` may be called from one thread or loop at a time.
    """

    def __init__(
        self,
        total: int | None,
        console: Console,
        *,
        at_once: int = 1,
        list_traffic: Callable[[], Sequence[Traffic]] = list,
        describe: Callable[[], str] | None = None,
    ) -> None:
        """`total` None: not known, as in a search, whose line `describe` returns. `list_traffic`: see `_watch`."""
        self._total, self._console, self._at_once, self._list_traffic = total, console, at_once, list_traffic
        self._describe_search, self._line_seconds = describe, SEARCH_LINE_SECONDS if describe else LINE_INTERVAL_SECONDS
        self._done = self._correct = self._errors = self._scored = 0
        self._cost_usd, self._is_priced = 0.0, True
        self._started = time.monotonic()
        self._last_line = self._started if describe else float("-inf")
        self._bar: Progress | None = None
        self._exited = threading.Event()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar = _LiveBar(BarColumn(), TimeElapsedColumn(), console=self._console, transient=self._total is None)
            self._bar.add_task(self._describe(""), total=self._total)
            self._bar.start()
        threading.Thread(target=self._watch, name="progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._exited.set()
        if self._bar:
            self._bar.stop()

    def update(self, record: Record) -> None:
        self._done += 1
        self._correct += record.correct
        self._errors += record.error is not None
        self._scored += record.scored
        for usage in (record.usage, record.scorer_usage):
            self._cost_usd += usage.at_least_usd
            self._is_priced &= not usage.unknown_cost_calls
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self._done, description=self._describe(""))
        elif self._done == self._total or time.monotonic() - self._last_line >= self._line_seconds:
            self._last_line = time.monotonic()
            self._print(self._describe(f", {self._last_line - self._started:.1f} s"))

    def _watch(self) -> None:
        """Tell after each minute without an answer what happens to the requests. Runs in a thread of its own."""
        done, begin = 0, time.monotonic()
        while not self._exited.wait(min(1.0, SILENCE_SECONDS)):
            if self._done != done:
                done, begin = self._done, time.monotonic()
            elif (seconds := time.monotonic() - begin) >= SILENCE_SECONDS:
                self._print(f"no answer finished for {seconds:.0f} s{_describe_traffic(self._list_traffic())}")
                begin = time.monotonic()

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _describe(self, elapsed: str) -> str:
        """Return the counts, the time if it is not shown otherwise, and what is left by the answers so far."""
        if self._describe_search is not None:
            return f"  {self._describe_search()}"
        assert self._total is not None, "of an evaluation"
        correct = f"{self._correct} correct" if self._scored or not self._done else "unscored"
        line = f"{self._done}/{self._total} done, {correct}, {self._errors} error{'' if self._errors == 1 else 's'}"
        line += f", ${self._cost_usd:,.4f}" if self._cost_usd else ""  # what is known of it
        line += elapsed
        seconds, cost_usd = time.monotonic() - self._started, self._cost_usd if self._is_priced else None
        seconds_left, all_usd = project(self._done, self._total, self._at_once, seconds, cost_usd)
        if seconds_left:
            line += f", about {format_duration(seconds_left)} left"
        if seconds_left and all_usd:
            line += f", about ${all_usd:,.{2 if all_usd >= 0.1 else 4}f} in all"
        return line


def project(
    done: int, total: int, at_once: int, seconds: float, cost_usd: float | None
) -> tuple[float | None, float | None]:
    """Return the seconds that are left, and the cost of all answers, if the rest is like the answers so far.

    None: not known yet. The answers that finish first are the short ones, and `at_once` are under way. `cost_usd` is
    that of the finished ones; None: the price of a call is not known.
    """
    if done >= total:
        return 0.0, cost_usd
    if done < max(_LEAST_DONE, min(at_once, total // 2)):
        return None, None
    return seconds * (total - done) / done, None if cost_usd is None else cost_usd * total / done


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units or fewer: 50 s, 4 min, 3 h 20 min, 2 d 5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    parts = {"d": hours // 24, "h": hours % 24} if hours >= 48 else {"h": hours, "min": minutes}
    return " ".join(f"{number} {unit}" for unit, number in parts.items() if number)


def _describe_traffic(servers: Sequence[Traffic]) -> str:
    """Return what happened to the requests to all servers so far; empty for a model without a server."""
    names = ("answered", "refused", "failed", "in_flight", "waiting")
    answered, refused, failed, in_flight, waiting = (sum(getattr(each, name) for each in servers) for name in names)
    if not (answered or refused or failed or in_flight or waiting):
        return ""
    return (
        f": of the requests to models {answered} are answered, {refused} refused (429), {failed} failed, "
        f"{in_flight} in flight, {waiting} waiting"
    )


@contextmanager
def open_resources(config: "EvalConfig") -> "Iterator[tuple[Resources, list[str]]]":
    """Open what the run's program uses; yield it with notes on what cannot work, and on the model's server.

    They are for `print_notes` once the run begins: until then a mistake is shown alone.
    """
    notes: list[str] = []
    with config.system.open_resources(config.tools, notes.append) as resources:
        notes += config.model.describe_server() if config.needs_model else ()
        if config.simulated:  # a simulated model uses no service: none is missing
            notes.clear()
        yield resources, [*resources.broken, *notes]  # what is broken here is so whatever the model


def print_notes(notes: Iterable[str], show: Callable[..., None] = print_line) -> None:
    """Call `show` with each note, as a line for standard error."""
    for each in notes:
        show(f"note: {each}", error=True)
