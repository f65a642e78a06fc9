"""Random kills of evaluations in worker processes: nothing lost, nothing doubled, nothing paid for twice.

    python -m tests.bench.kills 200 [FOLDER]       # rounds of 20 kills of the command and its workers; not part of CI

Each round compares a run that is killed again and again with one that is left alone, as the slow tests do
(`tests/test_kill_loop.py`); the first difference ends it with an assertion.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.eval.command_line import without_secrets
from tests.killed_run import moments
from tests.test_kill_loop import CONCURRENCY, LATENCY_SECONDS, SMALL, kill_loop

ROUND = 20
WORKERS = ("executor=processes", "executor.workers=2")


def main(number: int, folder: Path) -> None:
    kills, seed = 0, 100
    while kills < number:
        planned = moments(seed, min(ROUND, number - kills), max_requests=24, latency_seconds=LATENCY_SECONDS)
        environment = {**without_secrets(dict(os.environ)), "HF_HOME": str(folder / "hub")}
        began = time.monotonic()
        done, run = kill_loop(folder / f"round-{seed}", environment, planned, SMALL, 2, *WORKERS)
        kills, seed = kills + done, seed + 1
        print(
            f"{kills} of {number} kills: 0 of {len(run.records())} answers lost or doubled, the same numbers; at most "
            f"{CONCURRENCY} requests a kill were sent again; {time.monotonic() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    place = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="kills-")
    main(int(sys.argv[1]), Path(place))
