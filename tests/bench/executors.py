"""One process against several: throughput on simulated questions, and CPU a call over HTTP.

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
from tests.bench.measuring import CALLS, ROOT, FailedError, measure
from tests.bench.tables import Table

EXECUTORS = {
    "local": ("executor=local",),
    "processes, 2 workers": ("executor=processes", "executor.workers=2"),
    "ray, 2 workers": ("executor=ray", "executor.workers=2"),
}
CONCURRENCY, LATENCY_SECONDS = 64, 0.2
SIMULATED_COLUMNS = ("", "questions", "wall s", "questions/s", "ratio", "CPU s, all processes", "command s")
HTTP_COLUMNS = ("", "questions", "wall s", "CPU ms/LM call, start-ups included", "first request s")


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
    """The server, in a process of its own, shares the cores."""
    title = f"Executors over HTTP, {CONCURRENCY} at once, {LATENCY_SECONDS:g} s a call, one run each"
    table = Table(title, HTTP_COLUMNS)
    for name, options in EXECUTORS.items():
        run = folder / f"http-{name.replace(', ', '-').replace(' ', '-')}"
        try:
            done = measure(_command(run, questions, options), questions * CALLS, LATENCY_SECONDS)
            check_summary(run, questions)
        except FailedError as error:
            table.failed(name, questions, str(error))
            continue
        wall, cpu = round(done.served_seconds, 2), round(done.cpu_ms_per_call, 2)
        table.add([name, questions, wall, cpu, round(done.first_request_seconds, 2)])
        table.keep(name, questions, done.figures())
    return table


def _command(folder: Path, questions: int, options: Sequence[str]) -> Callable[[str], list[str]]:
    return lambda url: [*evaluation(url, CONCURRENCY, questions, folder), *options]
