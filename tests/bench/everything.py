"""All figures of docs/explanation/performance.md in one command, shown as tables and kept under outputs/bench/.

    make bench                                           # about 20 minutes on two cores
    python tests/bench/everything.py --full              # also kills
    python tests/bench/everything.py --quick             # about 3 minutes: fewer questions, one run each
    python tests/bench/everything.py --only side_by_side growth
    python tests/bench/everything.py --document          # puts the tables into docs/explanation/performance.md as well
    python tests/bench/everything.py --inspect-python /somewhere/bin/python      # Inspect AI in another environment
    python tests/bench/everything.py --real model.gguf   # a real model alone: see tests/bench/real_agent.py

A peer that is not installed has a row that says so: pip install .[bench].
Tuning has its own figures, in docs/explanation/optimisation.md: tuning_peer_gepa.py (plain GEPA), tuning_worlds.py.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import real_agent
from tests.bench.contenders import Contender, contenders
from tests.bench.executors import simulated
from tests.bench.kills import kills
from tests.bench.limiter_simulation import tabulate
from tests.bench.many_questions import all_at_once, growth, resume
from tests.bench.measuring import ROOT
from tests.bench.side_by_side import side_by_side
from tests.bench.tables import Table, write_document
from tests.bench.tracking_cost import tracking

DOCUMENT = ROOT / "docs" / "explanation" / "performance.md"


@dataclass(frozen=True)
class Size:
    questions: int = 100
    concurrencies: tuple[int, ...] = (10, 32, 64)
    repeats: int = 3
    at_once: int = 1_000
    growth: tuple[int, ...] = (1_000, 10_000)
    simulated: int = 2_000
    kills: int = 40


QUICK = Size(questions=64, concurrencies=(32, 64), repeats=1, at_once=200, growth=(100, 500), simulated=600, kills=4)


@dataclass(frozen=True)
class Bench:
    """What the parts share."""

    work: Path  # an empty folder
    size: Size
    inspect_python: str

    @property
    def contenders(self) -> list[Contender]:
        return contenders(self.inspect_python)


def _growth(bench: Bench) -> Iterator[Table]:
    yield growth(bench.contenders[0], bench.work, bench.size.growth)


def _resume(bench: Bench) -> Iterator[Table]:
    if not list(bench.work.glob("growth-*")):
        yield from _growth(bench)
    yield resume(bench.work, max(bench.size.growth), repeats=3)


# By name, in the order in which they run.
PARTS: dict[str, Callable[[Bench], Iterable[Table]]] = {
    "side_by_side": lambda at: [
        side_by_side(at.contenders, at.work, at.size.questions, at.size.concurrencies, at.size.repeats)
    ],
    "all_at_once": lambda at: [all_at_once(at.contenders, at.work, at.size.at_once, at.size.repeats)],
    "growth": _growth,
    "resume": _resume,
    "tracking": lambda at: [tracking(at.work, at.size.questions, at.size.repeats)],
    "executors": lambda at: [simulated(at.work, at.size.simulated)],
    "limiter": lambda at: tabulate(quick=at.size is QUICK),
    "kills": lambda at: [kills(at.work / "kills", at.size.kills)],
}
ONLY_FULL = ("kills",)


def read_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line, with the chosen parts as `only`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--inspect-python", default=sys.executable)
    parser.add_argument("--document", action="store_true")
    parser.add_argument("--real", metavar="MODEL", help="a GGUF file, or the address of a llama.cpp server with /v1")
    read = parser.parse_args(given)
    read.only = read.only or [name for name in PARTS if read.full or name not in ONLY_FULL]
    return read


def main() -> None:
    given = read_arguments()
    if given.real:
        real_agent.main(given.real)
        return
    started, out = time.monotonic(), _results_folder()
    tables: list[Table] = []
    print(_about(given.inspect_python), flush=True)
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(Path(work), QUICK if given.quick else Size(), given.inspect_python)
        for table in _measure(bench, given.only):
            tables.append(table)
            print(table.markdown(), flush=True)
            _write(out, given.inspect_python, tables)
    text = _text(given.inspect_python, tables)
    (out / "tables.md").write_text(text, encoding="utf-8")
    if given.document:
        write_document(DOCUMENT, text)
    print(f"{(time.monotonic() - started) / 60:.1f} minutes; figures: {out.relative_to(ROOT)}")


def _measure(bench: Bench, names: Sequence[str]) -> Iterator[Table]:
    for name, part in PARTS.items():
        if name in names:
            yield from part(bench)


def _about(inspect_python: str) -> str:
    names = ", ".join(contender.title for contender in contenders(inspect_python))
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC · Python {platform.python_version()} · {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} · {names}\n"
    )


def _results_folder() -> Path:
    folder = ROOT / "outputs" / "bench" / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    folder.mkdir(parents=True)
    return folder


def _text(inspect_python: str, tables: list[Table]) -> str:
    return "\n".join([_about(inspect_python), *(table.markdown() for table in tables)]).strip() + "\n"


def _write(out: Path, inspect_python: str, tables: list[Table]) -> None:
    """After each table, so that what is measured is kept when a later part fails."""
    about = _about(inspect_python).strip()
    figures = {"about": about, "command": sys.argv[1:], "tables": [table.to_dict() for table in tables]}
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
