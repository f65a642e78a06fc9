"""Random kills of evaluations and tuning runs over HTTP: nothing lost, nothing doubled, nothing paid for twice.

    python -m tests.bench.kills 200 [local] [FOLDER]         # or ray; rounds of 20 kills, 3 minutes each
    python -m tests.bench.kills 10 tuning                    # ten of each optimizer, about a minute each

The command is killed together with its workers, and resumed. Each round compares a run that is killed again and again
with one that is left alone, as the slow tests do; the first difference ends it.
"""

import sys
import tempfile
import time
import traceback
from pathlib import Path

from eval.cli.paths import PROJECT_ROOT
from tests.bench.tables import Table
from tests.optimize.killed_runs import CONCURRENCY as TUNING_CONCURRENCY
from tests.optimize.killed_runs import compare_killed, requests_by_phase
from tests.optimize.tuned import TunedRun, over_http, simulated_server
from tests.test_kill_loop import CONCURRENCY, SMALL, kill_loop, moments

ROUND = 20
EXECUTORS = {"local": ("executor=local",), "ray": ("executor=ray", "executor.workers=2")}
COLUMNS = ("executor", "kills", "answers", "lost or doubled", "other numbers", "sent again, at most", "s")
OPTIMIZERS = sorted(file.stem for file in (PROJECT_ROOT / "conf" / "optimizer").glob("*.yaml"))
TUNING = ("data.n_train=12", "data.n_val=12", "data.n_test=30", "budget.metric_calls=120", "shortlist.size=2", "seed=7")
TUNING_COLUMNS = ("optimizer", "kills", "end", "answers", "requests, left alone", "more, killed", "verdict")


def kills(folder: Path, number: int, executor: str = "local") -> Table:
    """Kill runs so many times in all; a difference is a row of its own, and the last one."""
    table = Table(f"{number} kills of an evaluation over HTTP, {ROUND} a run", COLUMNS)
    killed, seed = 0, 100
    while killed < number:
        planned = moments(seed, min(ROUND, number - killed), max_requests=24)
        began, place = time.monotonic(), folder / f"{executor}-{seed}"
        try:
            done, run = kill_loop(place, planned, SMALL, 2, *EXECUTORS[executor])
        except AssertionError:
            table.failed(executor, killed, traceback.format_exc().strip()[-1000:])
            break
        killed, seed = killed + done, seed + 1
        table.add([executor, done, len(run.stored()), 0, 0, CONCURRENCY * done, round(time.monotonic() - began)])
        print(table.rows[-1], file=sys.stderr, flush=True)
    table.keep(executor, number, {"kills": killed})
    return table


def kill_tuning(folder: Path, number: int) -> Table:
    """Kill a run of each optimizer so many times."""
    table = Table(f"{number} kills of a tuning run over HTTP", TUNING_COLUMNS)
    for optimizer in OPTIMIZERS:
        with simulated_server(0.02) as server:
            options = over_http(server, f"run.concurrency={TUNING_CONCURRENCY}", *TUNING, f"optimizer={optimizer}")
            names = (f"{optimizer}-{each}" for each in ("left-alone", "killed"))
            left_alone, run = (TunedRun(folder / name / "run", options, server) for name in names)
            found = compare_killed(left_alone, run, requests_by_phase(left_alone, server), number, seed=7)
        counts = (found.metric_calls, found.requests, found.repeated)
        table.add([optimizer, found.kills, found.finish_reason, *counts, "the same"])
        print(table.rows[-1], file=sys.stderr, flush=True)
    return table


if __name__ == "__main__":
    number, what = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "local"
    place = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="kills-"))
    print((kill_tuning(place, number) if what == "tuning" else kills(place, number, what)).markdown())
