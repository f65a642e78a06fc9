"""Output of a command on the terminal: tables and live lines, a run's progress, notes about missing services.

with RunProgress(66, Console()) as progress:
    progress.update(record)      # 12/66 done, 7 correct, 1 error, $0.03, 48.0 s, about 4 min left, about $0.17 in all

Progress is a live bar on a terminal with a line below it, and plain lines anywhere else (a file, CI). After a minute
without a finished answer, and after two, four and so on, a line tells what happens to the requests.
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

from eval.execution import projection
from eval.runs.record import Record
from mas.llm import Traffic
from mas.runtime.terminal import UNSEEN, print_line

if TYPE_CHECKING:
    from eval.config.evaluation import EvalConfig
    from mas.system import Resources

SILENCE_SECONDS = 60.0  # without a finished answer, until a line tells why
LINE_INTERVAL_SECONDS = 1.0  # a plain line at most this often, so that a fast run does not flood a CI log
SEARCH_LINE_SECONDS = 30.0  # the same of a search, which takes hours


class Console(rich.console.Console):
    """A console that replaces controls inside texts; those that rich adds for colours and live lines are its own."""

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control is None and UNSEEN.search(segment.text):
                yield Segment(UNSEEN.sub("\N{REPLACEMENT CHARACTER}", segment.text), segment.style)
            else:
                yield segment


class Output:
    """Lines of a run, printed on the terminal as they come, and the console of its progress and results."""

    shows_results = True

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()

    def print(self, text: str, error: bool = False, style: str | None = None) -> None:
        """Show a line; `error`: on standard error."""
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
    """Counts finished records. `update` may be called from one thread or loop at a time."""

    def __init__(
        self,
        total: int | None,
        console: Console,
        *,
        at_once: int = 1,
        list_traffic: Callable[[], Sequence[Traffic]] = list,
        describe: Callable[[], str] | None = None,
    ) -> None:
        """
        Args:
            total: answers to come; None: it is not known, as in a search.
            console: where to.
            at_once: answers that are under way at the same time.
            list_traffic: of the model's servers; called from another thread.
            describe: returns the line of a search, in place of the counts; it is shown more rarely.
        """
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
        """Print a line after each silence; the next one must be twice as long, until an answer is finished."""
        done = None
        while True:
            if self._done != done:
                silence, begin, done = SILENCE_SECONDS, time.monotonic(), self._done
                before = _sum_traffic(self._list_traffic())
            elif (seconds := time.monotonic() - begin) >= silence:
                silence *= 2
                what = _describe_traffic(before, _sum_traffic(self._list_traffic()))
                self._print(f"no answer finished for {seconds:.0f} s{what}")
            if self._exited.wait(min(1.0, SILENCE_SECONDS)):
                return

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _describe(self, elapsed: str) -> str:
        """Return the counts, the time if it is not shown otherwise, and what is left by the answers so far."""
        if self._describe_search is not None:
            return f"  {self._describe_search()}"
        assert self._total is not None, "of an evaluation"
        progress = projection.Progress(self._done, self._total, self._at_once)
        seconds, cost_usd = time.monotonic() - self._started, self._cost_usd if self._is_priced else None
        left = projection.format_projection(projection.project(progress, seconds, cost_usd))
        correct = f"{self._correct} correct" if self._scored or not self._done else "unscored"
        errors = f"{self._errors} error{'' if self._errors == 1 else 's'}"
        cost = f", ${self._cost_usd:,.4f}" if self._cost_usd else ""  # what is known of it
        return f"{self._done}/{self._total} done, {correct}, {errors}{cost}{elapsed}{', ' if left else ''}{left}"


def _sum_traffic(servers: Sequence[Traffic]) -> Traffic:
    """Return the sums, and the slowest pace."""
    names = ("answered", "refused", "failed", "in_flight", "waiting")
    paces = [each.pace for each in servers if each.pace is not None]
    sums = {name: sum(getattr(each, name) for each in servers) for name in names}
    return Traffic(**sums, pace=min(paces, default=None))


def _describe_traffic(before: Traffic, now: Traffic) -> str:
    if now == _sum_traffic([]):  # a model without a server
        return ""
    refused = now.refused - before.refused
    return (
        f": {now.answered - before.answered} model requests answered, {refused} refused (429), "
        f"{now.failed - before.failed} failed; {now.in_flight} in flight, {now.waiting} waiting"
        + (f"; the refusals allow {now.pace:.2g} requests a second" if refused > 0 and now.pace is not None else "")
    )


class MissingServices:
    """Notes about services that are missing, printed before the first sample; until then a mistake is shown alone."""

    def __init__(self, config: "EvalConfig") -> None:
        self._config = config
        self._sentences: list[str] = []

    @contextmanager
    def open_resources(self) -> "Iterator[Resources]":
        """Open what the run's program uses, and note what cannot work, and what the model's server tells of itself."""
        config = self._config
        with config.system.open_resources(config.tools, self._note) as resources:
            self._sentences = [*resources.broken, *self._sentences]  # on this machine, whatever the model
            for sentence in config.model.describe_server() if config.needs_model else ():
                self._note(sentence)
            yield resources

    def _note(self, sentence: str) -> None:
        if not self._config.simulated:  # a simulated model uses no service: none is missing
            self._sentences.append(sentence)

    def report(self, show: Callable[..., None] = print_line) -> None:
        """Call `show` with each note once, as a line for standard error."""
        while self._sentences:
            show(f"note: {self._sentences.pop(0)}", error=True)
