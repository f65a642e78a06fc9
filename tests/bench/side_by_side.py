"""This harness beside its peers: 100 questions of eight sequential calls at 10, 32 and 64 at once, 200 ms a call.

The whole graph, the store and the logs are on. ideal = ceil(questions / concurrency) * calls * latency.
"""

import math
from collections.abc import Sequence
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


def side_by_side(
    those: Sequence[Contender], folder: Path, questions: int, concurrencies: Sequence[int], repeats: int
) -> Table:
    """Medians of the repeats; the contenders take turns, so that a busy minute of the machine hits all of them."""
    table = Table(f"{questions} questions x {CALLS} calls, {LATENCY_SECONDS:g} s a call, medians of {repeats}", COLUMNS)
    for concurrency in concurrencies:
        runs: dict[str, list[Measured]] = {}
        failures: dict[str, str] = {}
        for repeat in range(repeats):
            for contender in those:
                place = folder / f"{contender.name.replace(' ', '-')}-{concurrency}-{repeat}"
                if not contender.version or contender.title in failures:
                    continue
                try:
                    measured = contender.run(place, questions, concurrency, LATENCY_SECONDS)
                    runs.setdefault(contender.title, []).append(measured)
                except FailedError as error:
                    failures[contender.title] = str(error)
        ideal = ideal_seconds(questions, concurrency, LATENCY_SECONDS)
        for contender in those:
            if contender.title in failures:
                table.failed(contender.title, concurrency, failures[contender.title])
            elif contender.title in runs:
                table.add(_row(contender.title, concurrency, medians(runs[contender.title]), ideal))
                table.keep(contender.name, concurrency, [run.figures() for run in runs[contender.title]])
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
