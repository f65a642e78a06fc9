"""CPU time of a run's own process and of its workers, and the number of workers at which the former is the limit.

python -m tests.bench.coordinator FOLDER        # a new one
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measuring import ROOT
from tests.bench.tables import Table

COLUMNS = ("", "questions", "CPU ms a question, run's process", "workers", "share of the run's process")
MODEL_COLUMNS = ("workers, one core each", "questions/s", "run's process, % of a core")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cpu:
    """CPU seconds of one run."""

    own: float  # of the run's process
    workers: float


def measure(folder: Path, questions: int, workers: int, options: Sequence[str]) -> Cpu:
    """Run the toy system on so many questions of the simulated model."""
    process = subprocess.Popen(
        [
            *(sys.executable, str(ROOT / "eval" / "run.py"), "system=toy", "data=toy", "model=offline", "split=test"),
            *(f"data.n_test={questions}", "run.concurrency=64", "tracking=off", f"run.dir={folder}"),
            *("executor=processes", f"executor.workers={workers}", *options),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    own = children = 0.0
    while process.poll() is None:
        own, children = _read_cpu(process.pid) or (own, children)
        time.sleep(0.02)
    assert json.loads((folder / "summary.json").read_text("utf-8"))["n"] == questions
    return Cpu(own, children)


def _read_cpu(pid: int) -> tuple[float, float] | None:
    """Return the CPU seconds of a process and of its children that have ended."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return None
    own, children = (int(values[at]) + int(values[at + 1]) for at in (11, 13))
    if values[0] == "Z":
        return None
    return own / _TICKS, children / _TICKS


def coordinator(folder: Path, few: int = 200, many: int = 800) -> list[Table]:
    """The difference of a long and a short run is without start and end of the processes."""
    table = Table(f"Run's process and workers, {few} and {many} simulated questions, one run each", COLUMNS)
    per_question = Cpu(0.0, 0.0)
    for workers in (2, 4, 16):
        short, long = (measure(folder / f"{workers}-{n}", n, workers, ()) for n in (few, many))
        own, others = (long.own - short.own) / (many - few), (long.workers - short.workers) / (many - few)
        per_question = per_question if per_question.own else Cpu(own, others)
        share = own / (own + others)
        table.add([f"{workers} workers", many, round(1000 * own, 2), round(1000 * others, 2), f"{share:.1%}"])
        table.keep(f"{workers} workers", many, {"own_seconds": own, "worker_seconds": others})
    return [table, model(per_question)]


def model(per_question: Cpu) -> Table:
    """Compute the rate of so many workers, each on a core of its own next to that of the run's process."""
    table = Table("Simulated questions by workers, computed from the first row", MODEL_COLUMNS)
    for workers in (1, 2, 4, 8, 16, 32, 64):
        rate = min(workers / per_question.workers, 1 / per_question.own)
        table.add([workers, round(rate), f"{100 * rate * per_question.own:.0f}"])
        table.keep(f"{workers} workers", workers, {"questions_per_second": rate})
    return table


if __name__ == "__main__":
    for each in coordinator(Path(sys.argv[1])):
        print(each.markdown())
