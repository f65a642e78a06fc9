"""What reading the hardest inputs of each kind costs the run: its memory, its CPU, and how long its event loop stood.

python tests/bench/hostile_reading.py                  # all; about six minutes
python tests/bench/hostile_reading.py --quick
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench.measuring import ROOT
from tests.bench.tables import Table
from tests.hostile_inputs import ATTACHED, PAGES

GOAL_MB, GOAL_MS = 300, 250
ALL = (*ATTACHED, *PAGES)
QUICK = ("rows.csv", "nested.json", "elements.xml", "sheet.xlsx", "attributes.html", "spans.html", "wiki.html")


def hostile_reading(names: Sequence[str], seconds: float) -> Table:
    """A row an input."""
    columns = ("input", "MB", "outcome", "seconds", "run's memory + MB", "run's CPU s", "longest pause of its loop ms")
    table = Table(f"Inputs made to hurt, each with a deadline of {seconds:g} s", columns)
    grown, lags = [0.0], [0.0]
    for name in names:
        command = [sys.executable, "tests/hostile_inputs.py", name, "--seconds", str(seconds)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            table.failed(name, "", (done.stderr.strip().splitlines() or ["it said nothing"])[-1])
            continue
        found = json.loads(done.stdout)
        table.keep(name, seconds, found)
        figures = (found["grown_mb"], found["own_cpu_seconds"], found["lag_ms"])
        table.add([name, round(found["bytes"] / 1e6, 1), found["outcome"], found["seconds"], *figures])
        grown.append(found["grown_mb"])
        lags.append(found["lag_ms"])
    table.notes.append(
        f"Most memory {max(grown):g} MB (goal {GOAL_MB}), longest pause {max(lags):g} ms (goal {GOAL_MS})."
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    print(hostile_reading(QUICK if given.quick else ALL, given.seconds).markdown())


if __name__ == "__main__":
    main()
