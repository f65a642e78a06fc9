"""Report and comparison of very many answers: CPU time and peak memory of each command, and the size on disk.

    python -m tests.bench.large_run RUN FOLDER 10000 100000        # RUN: a finished run; its answers are repeated

The answers are repeated, not asked: what is measured is reading, summarising, writing pages and comparing.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eval.runs.folder import DATABASE
from eval.runs.record import PlannedQuestion, Record
from eval.runs.store import RunStore
from tests.bench.measuring import ROOT
from tests.bench.tables import Table

COLUMNS = ("answers", "command", "CPU s", "CPU ms an answer", "peak MB", "MB on disk")


@dataclass(frozen=True)
class Used:
    """Resources of one command."""

    cpu_seconds: float
    peak_mb: float


def repeat(run: Path, folder: Path, number: int) -> None:
    """Write a run with the answers of another one over and over, under ids of their own."""
    folder.mkdir(parents=True)
    with RunStore(run / DATABASE, read_only=True) as source, RunStore(folder / DATABASE) as store:
        records, plan = list(source.final_records()), {each.id: each for each in source.read_plan()}
        store.write_plan(_plan(records, plan, number))
        store.write_info(source.read_info())
        for at in range(number):
            record = records[at % len(records)]
            store.write(replace(record, sample_id=f"{record.sample_id}-{at // len(records)}"))
        store.write_state(source.read_state())


def _plan(records: Sequence[Record], plan: dict[str, PlannedQuestion], number: int) -> Iterator[PlannedQuestion]:
    for at in range(number):
        sample_id = records[at % len(records)].sample_id
        yield replace(plan[sample_id], id=f"{sample_id}-{at // len(records)}")


def use(*arguments: str) -> Used:
    """Run a command of `eval/`, whose exit code is not looked at."""
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, _, used = os.wait4(process.pid, 0)
    return Used(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def large_run(run: Path, place: Path, numbers: Sequence[int]) -> Table:
    table = Table("Report and comparison of very many answers, one run each", COLUMNS)
    for number in numbers:
        folder = place / str(number)
        repeat(run, folder, number)
        again = place / f"{number}-again"
        shutil.copytree(folder, again)
        for name, arguments in (
            ("report.py", ("eval/report.py", str(folder))),
            ("compare.py", ("eval/compare.py", str(folder), str(again))),
        ):
            used = use(*arguments)
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
            cells = [f"{number:,}", name, round(used.cpu_seconds, 1), round(1000 * used.cpu_seconds / number, 2)]
            table.add([*cells, round(used.peak_mb), round(size)])
            table.keep(name, number, {"cpu_seconds": used.cpu_seconds, "peak_mb": used.peak_mb, "megabytes": size})
            print(table.rows[-1], flush=True)
    return table


if __name__ == "__main__":
    print(large_run(Path(sys.argv[1]), Path(sys.argv[2]), [int(each) for each in sys.argv[3:]]).markdown())
