"""One process against two Ray actors: throughput on simulated questions.

python tests/bench/everything.py --only executors
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.measuring import ROOT
from tests.bench.simulated_worlds import DRAWN
from tests.bench.tables import Table

EXECUTORS = {"local": ("executor=local",), "ray, 2 workers": ("executor=ray", "executor.workers=2")}
CONCURRENCY = 64
COLUMNS = ("", "questions", "wall s", "questions/s", "ratio", "CPU s, all processes", "command s")


def simulated(folder: Path, questions: int) -> Table:
    """Nobody waits for a server: the cores alone limit the run."""
    table = Table(f"Executors, {questions:,} simulated questions, {CONCURRENCY} at once, one run each", COLUMNS)
    table.notes.append(
        "CPU s of ray is a lower bound: of its own processes, those that are killed at the end may be missing"
    )
    first = None
    for name, options in EXECUTORS.items():
        run = folder / name.replace(", ", "-").replace(" ", "-")
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        asked = subprocess.run(
            [
                *(sys.executable, str(ROOT / "eval" / "run.py"), "system=toy", "data=toy", DRAWN, "model=offline"),
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
