"""This harness beside its peers: 100 questions of eight sequential calls at 10, 32 and 64 at once, 200 ms a call.

The whole graph, the store and the logs are on. ideal = ceil(questions / concurrency) * calls * latency.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.contenders import OURS, Contender
from tests.bench.measuring import CALLS, FailedError, Measured, medians
from tests.bench.tables import Table

LATENCY_SECONDS = 0.2
GOALS = {10: 1.05, 32: 1.15, 64: 1.30}  # wall / ideal
COLUMNS = (
    "",
    "at once",
    "wall s",
    "wall / ideal",
    "CPU ms/LM call",
    "… without start-up",
    "first request s",
    "peak MB",
)


def ideal_seconds(questions: int, concurrency: int, latency_seconds: float) -> float:
    return math.ceil(questions / concurrency) * CALLS * latency_seconds


@dataclass
class Turns:
    """Runs by contender, or why there are none."""

    runs: dict[str, list[Measured]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def run_in_turns(
    those: Sequence[Contender], folder: Path, questions: int, concurrency: int, latency_seconds: float, repeats: int
) -> Turns:
    """Run each contender so often; they take turns, so that a busy minute of the machine hits all of them."""
    found = Turns()
    for repeat in range(repeats):
        for contender in those:
            if not contender.version or contender.title in found.failures:
                continue
            try:
                place = folder / f"{contender.name.replace(' ', '-')}-{concurrency}-{repeat}"
                measured = contender.run(place, questions, concurrency, latency_seconds)
                found.runs.setdefault(contender.title, []).append(measured)
            except FailedError as error:
                found.failures[contender.title] = str(error)
    return found


def side_by_side(
    those: Sequence[Contender], folder: Path, questions: int, concurrencies: Sequence[int], repeats: int
) -> Table:
    """Return medians of the repeats."""
    table = Table(f"{questions} questions x {CALLS} calls, {LATENCY_SECONDS:g} s a call, medians of {repeats}", COLUMNS)
    for concurrency in concurrencies:
        found = run_in_turns(those, folder, questions, concurrency, LATENCY_SECONDS, repeats)
        ideal = ideal_seconds(questions, concurrency, LATENCY_SECONDS)
        for contender in those:
            if contender.title in found.failures:
                table.failed(contender.title, concurrency, found.failures[contender.title])
            elif runs := found.runs.get(contender.title):
                table.add(_row(contender.title, concurrency, medians(runs), ideal))
                table.keep(contender.name, concurrency, [run.figures() for run in runs])
            else:
                table.add([contender.title, concurrency])
        if OURS in table.kept and concurrency in GOALS:
            table.add(["goal", concurrency, "", GOALS[concurrency], "", 3.5, 2.0, 200])
    return table


def _row(title: str, concurrency: int, run: Measured, ideal: float) -> list[str | float]:
    return [
        title,
        concurrency,
        round(run.served_seconds, 2),
        round(run.served_seconds / ideal, 2),
        round(run.cpu_ms_per_call, 2),
        round(run.running_cpu_ms_per_call, 2),
        round(run.first_request_seconds, 2),
        round(run.peak_mb),
    ]
