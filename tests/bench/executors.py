"""One process against two Ray actors: throughput on simulated questions, and CPU a call over HTTP.

python tests/bench/everything.py --only executors
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.contenders import check_summary, evaluation
from tests.bench.measuring import CALLS, ROOT, FailedError, Measured, measure
from tests.bench.tables import Table

EXECUTORS = {
    "local": ("executor=local",),
    "ray, 2 workers": ("executor=ray", "executor.workers=2"),
}
CONCURRENCY, LATENCY_SECONDS = 64, 0.2
SIMULATED_COLUMNS = ("", "questions", "wall s", "questions/s", "ratio", "CPU s, all processes", "command s")
HTTP_COLUMNS = ("", "questions", "wall s", "CPU ms/LM call, start-ups included", "without", "ratio", "first request s")


def simulated(folder: Path, questions: int) -> Table:
    """Nobody waits for a server: the cores alone limit the run."""
    table = Table(
        f"Executors, {questions:,} simulated questions, {CONCURRENCY} at once, one run each", SIMULATED_COLUMNS
    )
    table.notes.append(
        "CPU s of ray is a lower bound: of its own processes, those that are killed at the end may be missing"
    )
    first = None
    for name, options in EXECUTORS.items():
        run = folder / name.replace(", ", "-").replace(" ", "-")
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        asked = subprocess.run(
            [
                *(sys.executable, str(ROOT / "eval" / "run.py"), "system=toy", "data=toy", "model=offline"),
                *("split=test", f"data.n_test={questions}", f"run.concurrency={CONCURRENCY}", "tracking=off"),
                *(f"run.dir={run}", *options),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        if asked.returncode not in (0, 2):  # 2: some questions are in error
            table.failed(name, questions, (asked.stdout + asked.stderr).strip()[-300:])
            continue
        wall = json.loads((run / "summary.json").read_text("utf-8"))["wall_seconds"]
        first = first or wall
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rate, ratio = round(questions / wall, 1), round(first / wall, 2)
        table.add([name, f"{questions:,}", round(wall, 1), rate, ratio, round(cpu, 1), round(seconds, 1)])
        table.keep(name, questions, {"wall_seconds": wall, "cpu_seconds": cpu, "command_seconds": seconds})
    return table


def over_http(folder: Path, questions: int) -> Table:
    """The server, in a process of its own, shares the cores. A second, smaller run tells what starting costs."""
    few = questions // 4
    title = f"Executors over HTTP, {CONCURRENCY} at once, {LATENCY_SECONDS:g} s a call, one run each"
    table = Table(title, HTTP_COLUMNS)
    table.notes.append(f"without start-ups: CPU less that of a run of {few:,} questions, by the calls that it has more")
    table.notes.append("CPU of ray is not known: its own processes are killed at the end, and nobody counts theirs")
    first = None
    for name, options in EXECUTORS.items():
        try:
            small, done = (_answered(folder, name, number, options) for number in (few, questions))
        except FailedError as error:
            table.failed(name, questions, str(error))
            continue
        more = 1000 * (done.cpu_seconds - small.cpu_seconds) / (done.requests - small.requests)
        first = first or more
        cpu = [round(each, 2) for each in (done.cpu_ms_per_call, more, more / first)]
        shown = ["n/a"] * 3 if name.startswith("ray") else cpu
        first_request = round(done.first_request_seconds, 2)
        table.add([name, f"{questions:,}", round(done.served_seconds, 2), *shown, first_request])
        table.keep(name, questions, {**done.figures(), "cpu_ms_per_further_call": more})
    return table


def _answered(folder: Path, name: str, questions: int, options: Sequence[str]) -> Measured:
    run = folder / f"http-{questions}-{name.replace(', ', '-').replace(' ', '-')}"
    done = measure(_command(run, questions, options), questions * CALLS, LATENCY_SECONDS)
    check_summary(run, questions)
    return done


def _command(folder: Path, questions: int, options: Sequence[str]) -> Callable[[str], list[str]]:
    return lambda url: [*evaluation(url, CONCURRENCY, questions, folder), *options]
