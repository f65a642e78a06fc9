"""All figures of docs/explanation/performance.md in one command, shown as tables and kept under outputs/bench/.

    make bench                                           # about 35 minutes on two cores
    python tests/bench/everything.py --quick             # about 8 minutes: fewer questions, one run each
    python tests/bench/everything.py --only side_by_side growth
    python tests/bench/everything.py --document          # puts the tables into docs/explanation/performance.md as well
    python tests/bench/everything.py --inspect-python /somewhere/bin/python      # Inspect AI in another environment

A peer that is not installed has a row that says so: pip install .[bench].
Tuning has its own figures, in docs/explanation/optimisation.md: tuning_peer_gepa.py (plain GEPA), tuning_worlds.py.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench.contenders import contenders
from tests.bench.executors import over_http, simulated
from tests.bench.hostile_reading import ALL, hostile_reading
from tests.bench.hostile_reading import QUICK as FEW
from tests.bench.limiter_over_http import tabulate_over_http
from tests.bench.limiter_simulation import tabulate
from tests.bench.live_viewer import live_viewer
from tests.bench.many_questions import all_at_once, growth, resume
from tests.bench.measuring import ROOT
from tests.bench.request_overhead import request_overhead
from tests.bench.shared_rate import shared_rate
from tests.bench.side_by_side import side_by_side
from tests.bench.tables import Table
from tests.bench.tracking_cost import tracking

PARTS = (
    *("side_by_side", "all_at_once", "growth", "resume", "tracking", "hostile_reading"),
    *("request_overhead", "executors", "rate_limited", "limiter", "limiter_over_http", "live_viewer"),
)
RATE_LIMITED = Path(__file__).with_name("rate_limited.py")
DOCUMENT = ROOT / "docs" / "explanation" / "performance.md"
MARKS = ("<!-- figures: written by tests/bench/everything.py --document -->", "<!-- end of figures -->")


@dataclass(frozen=True)
class Size:
    questions: int = 100
    concurrencies: tuple[int, ...] = (10, 32, 64)
    repeats: int = 3
    at_once: int = 1_000
    growth: tuple[int, ...] = (1_000, 10_000)
    memory: tuple[int, ...] = (500, 2_000)
    watched: int = 500
    hostile: tuple[str, ...] = ALL
    hostile_seconds: float = 10.0  # deadline of each
    simulated: int = 2_000
    over_http: int = 400


QUICK = Size(
    questions=64,
    concurrencies=(32, 64),
    repeats=1,
    at_once=200,
    growth=(100, 500),
    memory=(100, 400),
    watched=100,
    hostile=FEW,
    hostile_seconds=5.0,
    simulated=600,
    over_http=64,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--inspect-python", default=sys.executable)
    parser.add_argument("--document", action="store_true")
    given = parser.parse_args()
    started, out = time.monotonic(), _results_folder()
    tables: list[Table] = []
    rate_limited = ""
    print(_about(given.inspect_python), flush=True)
    with tempfile.TemporaryDirectory() as work:
        for table in _tables(Path(work), QUICK if given.quick else Size(), set(given.only), given.inspect_python):
            tables.append(table)
            print(table.markdown(), flush=True)
            _write(out, given.inspect_python, tables)
    if "rate_limited" in given.only:
        rate_limited = _rate_limited(given.quick)
        print(rate_limited)
    text = _text(given.inspect_python, tables, rate_limited)
    (out / "tables.md").write_text(text, encoding="utf-8")
    if given.document:
        _document(text)
    print(f"{(time.monotonic() - started) / 60:.1f} minutes; figures: {out.relative_to(ROOT)}")


def _tables(work: Path, size: Size, parts: set[str], inspect_python: str) -> Iterator[Table]:
    those = contenders(inspect_python)
    if "side_by_side" in parts:
        yield side_by_side(those, work, size.questions, size.concurrencies, size.repeats)
    if "all_at_once" in parts:
        yield all_at_once(those, work, size.at_once, size.repeats)
    if parts & {"growth", "resume"}:
        yield growth(those[0], work, size.growth)
    if "resume" in parts:
        yield resume(work, max(size.growth), repeats=3)
    if "tracking" in parts:
        yield from tracking(work, size.questions, size.repeats, size.memory)
    if "live_viewer" in parts:
        yield from live_viewer(work, size.watched, size.repeats)
    if "hostile_reading" in parts:
        yield hostile_reading(size.hostile, size.hostile_seconds)
    if "request_overhead" in parts:
        yield request_overhead()
    if "executors" in parts:
        yield simulated(work, size.simulated)
        yield over_http(work, size.over_http)
        yield shared_rate()
    if "limiter" in parts:
        yield from tabulate(quick=size is QUICK)
    if "limiter_over_http" in parts:
        yield tabulate_over_http(quick=size is QUICK)


def _rate_limited(quick: bool) -> str:
    """A server with a fixed rate: measured by a program of its own, which prints its own table."""
    if not RATE_LIMITED.exists():
        return f"{RATE_LIMITED.name} is not there: the fixed-rate server was not measured\n"
    command = [sys.executable, str(RATE_LIMITED), *(["--requests", "300", "--repeats", "1"] if quick else [])]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = ran.stdout.strip() if not ran.returncode else f"failed: {(ran.stdout + ran.stderr).strip()[-1000:]}"
    return f"### A server that takes 50 requests a second, 64 workers\n\n```text\n{said}\n```\n"


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


def _text(inspect_python: str, tables: list[Table], more: str) -> str:
    return "\n".join([_about(inspect_python), *(table.markdown() for table in tables), more]).strip() + "\n"


def _document(text: str) -> None:
    """Replace what stands between the two marks of docs/explanation/performance.md."""
    page = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    DOCUMENT.write_text(f"{before}{MARKS[0]}\n\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


def _write(out: Path, inspect_python: str, tables: list[Table]) -> None:
    """After each table, so that what is measured is kept when a later part fails."""
    about = _about(inspect_python).strip()
    figures = {"about": about, "command": sys.argv[1:], "tables": [table.to_dict() for table in tables]}
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
