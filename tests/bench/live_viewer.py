"""What three browsers that watch a live run cost it: pairs of the same run, alone and watched.

    python -m tests.bench.live_viewer                              500 questions, 5 pairs: about 15 minutes
    python -m tests.bench.live_viewer --questions 100 --repeats 2  does it run?

Every second pair begins with the watched run, so that a machine that gets faster or slower favours neither; the figure
is the median of the pairs' ratios. A pair whose browsers saw nothing is repeated once.

The viewer and the browsers are processes of their own; on a machine with few cores they take time from the run all the
same, so both are told: CPU of the evaluating process, which the viewer could only raise by locking or by filling
caches, and the time from the first request to the last reply.
"""

import argparse
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.bench.contenders import check_summary, evaluation
from tests.bench.measuring import CALLS, FailedError, Measured, measure
from tests.bench.side_by_side import LATENCY_SECONDS, ideal_seconds
from tests.bench.tables import Cell, Table
from tests.eval.test_view import RunningViewer, running_viewer
from tests.pages.browser import browser, why_not

AT_ONCE = 32
BROWSERS = 3
GOAL = 1.03  # watched / alone
COLUMNS = (
    "",
    "alone",
    f"watched by {BROWSERS}",
    "watched / alone",
    "goal",
    "of each pair",
    "each run: alone",
    "watched",
)


class Watchers:
    """Three browsers on the live page of a run; without Chromium three clients that read the same events."""

    def __init__(self, viewer: RunningViewer, run: str) -> None:
        self.viewer, self.run = viewer, run
        self.states = [0] * BROWSERS  # that each has received
        self._ready, self._begun, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(place,), daemon=True) for place in range(BROWSERS)]
        if not why_not():
            self._threads = [threading.Thread(target=self._look, daemon=True)]

    def open(self) -> None:
        """Start the browsers, and wait until they show the list of runs: to start them is no part of watching."""
        for each in self._threads:
            each.start()
        self._ready.wait(120)

    def start(self) -> None:
        """Go to the page of the run, which has a folder now."""
        self._begun.set()

    def stop(self) -> None:
        self._ended.set()
        self._begun.set()
        for each in self._threads:
            each.join(30)

    def _look(self) -> None:
        with browser(width=1440) as page:
            pages = [page, *(page.context.browser.new_context().new_page() for _ in range(BROWSERS - 1))]
            for each in pages:
                each.goto(self.viewer.url)
            self._ready.set()
            self._begun.wait()
            for each in pages:
                each.goto(f"{self.viewer.base}/runs/eval~{self.run}")
            while not self._ended.is_set():
                for place, each in enumerate(pages):
                    each.wait_for_timeout(500)
                    self.states[place] += "so far" in each.inner_text("#tiles")

    def _read(self, place: int) -> None:
        self._ready.set()
        self._begun.wait()
        with self.viewer.connect() as client, client.stream("GET", f"/runs/eval~{self.run}/events") as stream:
            for line in stream.iter_lines():
                self.states[place] += line.startswith("event: state")


def live_viewer(folder: Path, questions: int, repeats: int) -> Iterator[Table]:
    """One table: the run alone, and watched."""
    folder = folder / "live_viewer" / "eval"
    folder.mkdir(parents=True)
    table = Table(f"Live viewer: {questions} questions x {CALLS} calls, {LATENCY_SECONDS:g} s a call", COLUMNS)
    try:
        alone, watched, states = _in_turns(folder, questions, repeats)
    except FailedError as error:
        table.failed("the run", AT_ONCE, str(error)[:500])
        yield table
        return
    rows: tuple[tuple[str, Callable[[Measured], float]], ...] = (
        ("CPU s of the evaluating process", lambda each: each.own_cpu_seconds),
        ("s from the first request to the last reply", lambda each: each.served_seconds),
    )
    for name, read in rows:
        table.add(compare_pairs(name, [read(each) for each in alone], [read(each) for each in watched]))
    kind = "events, read without Chromium" if why_not() else "looks of real browsers at a page that follows"
    ideal = ideal_seconds(questions, AT_ONCE, LATENCY_SECONDS)
    table.notes.append(f"{sum(states)} {kind}; {AT_ONCE} questions at once, {ideal:.0f} s if nothing else took time")
    table.keep("alone", AT_ONCE, [each.figures() for each in alone])
    table.keep("watched", AT_ONCE, [each.figures() for each in watched])
    yield table


def compare_pairs(name: str, alone: list[float], watched: list[float]) -> list[Cell]:
    """Return the row of one quantity: medians, and the median of the pairs' ratios."""
    ratios = [after / before for before, after in zip(alone, watched, strict=True)]
    each = [", ".join(f"{value:.2f}" for value in values) for values in (alone, watched)]
    pairs = ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
    medians = [round(statistics.median(values), 2) for values in (alone, watched)]
    return [name, *medians, f"{statistics.median(ratios):.3f}", GOAL, pairs, *each]


def _in_turns(folder: Path, questions: int, repeats: int) -> tuple[list[Measured], list[Measured], list[int]]:
    """
    Raises:
        FailedError: a run went wrong, or the browsers of a pair saw nothing, and nothing the second time either.
    """
    alone, watched, states = list[Measured](), list[Measured](), list[int]()
    for repeat in range(repeats):
        for name in (f"{repeat}", f"{repeat}-again"):
            first = _run(folder / f"alone-{name}", questions, None) if repeat % 2 == 0 else None
            its_run, seen = _run_watched(folder, f"watched-{name}", questions)
            before = first or _run(folder / f"alone-{name}", questions, None)
            if all(seen):
                break
        else:
            raise FailedError(f"the browsers saw {seen} states of the run")
        alone.append(before)
        watched.append(its_run)
        states += seen
        print(f"pair {repeat + 1} of {repeats}: {its_run.served_seconds / before.served_seconds:.3f}", file=sys.stderr)
    return alone, watched, states


def _run_watched(folder: Path, name: str, questions: int) -> tuple[Measured, list[int]]:
    with running_viewer(folder.parent) as viewer:
        watchers = Watchers(viewer, name)
        watchers.open()
        return _run(folder / name, questions, watchers), watchers.states


def _run(folder: Path, questions: int, watchers: Watchers | None) -> Measured:
    with ExitStack() as stack:

        def watch(pid: int, count: Callable[[], float]) -> None:
            if watchers:
                starting = threading.Thread(target=_start_later, args=(watchers, count), daemon=True)
                starting.start()
                stack.callback(watchers.stop)

        command = lambda url: evaluation(url, AT_ONCE, questions, folder)  # noqa: E731
        measured = measure(command, questions * CALLS, LATENCY_SECONDS, watch=watch)
    check_summary(folder, questions)
    return measured


def _start_later(watchers: Watchers, count: Callable[[], float]) -> None:
    """Open the browsers as soon as the run has its folder and asks its model."""
    for _ in range(600):
        try:
            if count() > 0:
                watchers.start()
                return
        except (OSError, httpx.HTTPError):  # the server has ended with the run
            return
        threading.Event().wait(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for table in live_viewer(Path(folder), given.questions, given.repeats):
            print(table.markdown())


if __name__ == "__main__":
    main()
