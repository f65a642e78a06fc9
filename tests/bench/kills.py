"""Random kills of evaluations over HTTP: nothing lost, nothing doubled, nothing paid for twice.

    python -m tests.bench.kills 200 [local] [FOLDER]         # or ray; rounds of 20 kills, 3 minutes each

The command is killed together with its workers, and resumed. Each round compares a run that is killed again and again
with one that is left alone, as the slow tests do (`tests/test_kill_loop.py`); the first difference ends it.
"""

import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.bench.tables import Table
from tests.eval.command_line import without_secrets
from tests.killed_run import moments
from tests.test_kill_loop import CONCURRENCY, LATENCY_SECONDS, SMALL, kill_loop

ROUND = 20
EXECUTORS = {
    "local": ("executor=local",),
    "ray": ("executor=ray", "executor.workers=2"),
}
COLUMNS = ("executor", "kills", "answers", "lost or doubled", "other numbers", "sent again, at most", "s")


def kills(folder: Path, number: int, executor: str = "local") -> Table:
    """Kill runs so many times in all; a difference is a row of its own, and the last one."""
    table = Table(f"{number} kills of an evaluation over HTTP, {ROUND} a run", COLUMNS)
    killed, seed = 0, 100
    while killed < number:
        planned = moments(seed, min(ROUND, number - killed), max_requests=24, latency_seconds=LATENCY_SECONDS)
        environment = {**without_secrets(dict(os.environ)), "HF_HOME": str(folder / "hub")}
        began, place = time.monotonic(), folder / f"{executor}-{seed}"
        try:
            done, run = kill_loop(place, environment, planned, SMALL, 2, *EXECUTORS[executor])
        except AssertionError:
            table.failed(executor, killed, traceback.format_exc().strip()[-1000:])
            break
        killed, seed = killed + done, seed + 1
        table.add([executor, done, len(run.records()), 0, 0, CONCURRENCY * done, round(time.monotonic() - began)])
        print(table.rows[-1], file=sys.stderr, flush=True)
    table.keep(executor, number, {"kills": killed})
    return table


if __name__ == "__main__":
    place = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="kills-"))
    print(kills(place, int(sys.argv[1]), *sys.argv[2:3]).markdown())
