"""What MLflow costs a run: this harness with tracking=off and tracking=local in turns, and how others trace the same.

Every run has a fresh store in SQLite. CPU is the evaluating process's alone: the exporter is a process of its own.
The peers trace inside the evaluating process. They run once each.
"""

import shutil
import sqlite3
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from eval.mlflow_export.exporter import ExportState, read_state
from tests.bench.contenders import OURS, check_summary, evaluation, version
from tests.bench.measuring import CALLS, FailedError, Measured, StalledError, measure, medians
from tests.bench.side_by_side import LATENCY_SECONDS, ideal_seconds
from tests.bench.tables import Cell, Table

AT_ONCE = 32
LIMIT_SECONDS = 180.0  # of one run
CPU_GOAL, WALL_GOAL = 1.6, 1.05  # local / off
COLUMNS = (
    "",
    "at once",
    "wall s",
    "wall / ideal",
    "CPU ms/LM call",
    "… without start-up",
    "s after the last reply",
    "peak MB, largest process",
    "traces stored",
    "spans",
    "assessments",
)


@dataclass(frozen=True)
class Stored:
    """What an MLflow store holds."""

    traces: int = 0  # finished ones
    spans: int = 0
    assessments: int = 0

    def cells(self, expected: "Stored") -> list[Cell]:
        return [
            f"{self.traces} of {expected.traces}",
            f"{self.spans} of {expected.spans}",
            f"{self.assessments} of {expected.assessments}",
        ]


@dataclass(frozen=True)
class Peer:
    """Somebody who traces into a store of his own; `spans` and `assessments` of one question when nothing is lost."""

    script: str
    name: str
    package: str
    at_once: int
    spans: int
    assessments: int
    with_: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} {version(sys.executable, self.package) or '(not installed)'}{self.with_}"

    def expected(self, questions: int) -> Stored:
        return Stored(questions, questions * self.spans, questions * self.assessments)

    def command(self, url: str, questions: int, folder: Path) -> list[str]:
        script = Path(__file__).with_name(self.script)
        return [sys.executable, str(script), url, str(self.at_once), str(questions), str(folder)]


PEERS = (
    Peer("peer_mlflow.py", "mlflow.genai.evaluate", "mlflow", 8, 1 + CALLS, 2),
    Peer("peer_mlflow.py", "mlflow.genai.evaluate", "mlflow", 32, 1 + CALLS, 2),
    Peer("peer_dspy_autolog.py", "dspy.Evaluate", "dspy", 32, 1 + 4 * CALLS, 1, " + mlflow.dspy.autolog"),
)


def tracking(folder: Path, questions: int, repeats: int) -> Table:
    folder = folder / "tracking"
    table = Table(f"Tracking: {questions} questions x {CALLS} calls, {LATENCY_SECONDS:g} s a call", COLUMNS)
    try:
        off, local, states = _in_turns(folder, questions, repeats)
    except FailedError as error:
        table.failed(OURS, AT_ONCE, _shortly(error))
    else:
        _ours(table, folder, questions, off, local, states)
    for peer in PEERS:
        _peer(table, peer, folder, questions)
    return table


def on(url: str, at_once: int, questions: int, folder: Path) -> list[str]:
    """The evaluation with tracking=local, its store in a folder beside the run's."""
    off = evaluation(url, at_once, questions, folder)
    local = [each if each != "tracking=off" else "tracking=local" for each in off]
    return [*local, f"tracking.folder={store_of(folder)}", "++tracking.wait_seconds=300"]


def store_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-mlflow")


def _in_turns(folder: Path, questions: int, repeats: int) -> tuple[list[Measured], list[Measured], list[ExportState]]:
    """
    Raises:
        FailedError: a run went wrong, or MLflow did not get all of it.
    """
    off, local, states = [], [], []
    for repeat in range(repeats):
        off.append(_run(lambda url, at: evaluation(url, AT_ONCE, questions, at), folder / f"off-{repeat}", questions))
        place = folder / f"local-{repeat}"
        local.append(_run(lambda url, at: on(url, AT_ONCE, questions, at), place, questions))
        state = read_state(place)
        if state is None or not state.complete:
            raise FailedError(f"MLflow does not have the whole run: {state.warning if state else 'no mlflow.json'}")
        states.append(state)
    return off, local, states


def _run(command: Callable[[str, Path], list[str]], folder: Path, questions: int) -> Measured:
    measured = measure(lambda url: command(url, folder), questions * CALLS, LATENCY_SECONDS, LIMIT_SECONDS)
    check_summary(folder, questions)
    return measured


def _ours(
    table: Table,
    folder: Path,
    questions: int,
    off: Sequence[Measured],
    local: Sequence[Measured],
    states: Sequence[ExportState],
) -> None:
    title = f"{OURS} {version(sys.executable, 'mas-harness')}"
    ideal = ideal_seconds(questions, AT_ONCE, LATENCY_SECONDS)
    worst = min((stored(store_of(folder / f"local-{i}")) for i in range(len(local))), key=lambda each: each.spans)
    expected = Stored(*(states[-1].counts[name]["store"] for name in ("traces", "spans")), worst.assessments)
    table.add(_row(f"{title}, tracking=off", AT_ONCE, off, ideal))
    table.add([*_row(f"{title}, tracking=local", AT_ONCE, local, ideal), *worst.cells(expected)])
    table.keep(OURS, "off", [_figures(run) for run in off])
    table.keep(OURS, "local", [_figures(run) for run in local])
    table.notes.append(f"this harness: medians of {len(off)}, off and local in turns; the others: one run each")
    table.notes.append(f"goals, local / off: CPU {CPU_GOAL}, wall {WALL_GOAL}")


def _peer(table: Table, peer: Peer, folder: Path, questions: int) -> None:
    place = folder / f"{Path(peer.script).stem}-{peer.at_once}"
    expected = peer.expected(questions)
    if not version(sys.executable, peer.package):
        table.add([peer.title, peer.at_once])
        return
    try:
        run = measure(
            lambda url: peer.command(url, questions, place), questions * CALLS, LATENCY_SECONDS, LIMIT_SECONDS
        )
    except FailedError as error:
        how = f"stalled: {error}" if isinstance(error, StalledError) else "failed"
        table.add([peer.title, peer.at_once, how, *["-"] * 5, *stored(place).cells(expected)])
        if not isinstance(error, StalledError):
            table.notes.append(f"{peer.title} at {peer.at_once} failed: {_shortly(error)}")
    else:
        ideal = ideal_seconds(questions, peer.at_once, LATENCY_SECONDS)
        table.add([*_row(peer.title, peer.at_once, [run], ideal), *stored(place).cells(expected)])
        table.keep(peer.name, peer.at_once, [_figures(run)])
    shutil.rmtree(place, ignore_errors=True)


def _row(title: str, at_once: int, runs: Sequence[Measured], ideal: float) -> list[Cell]:
    run = medians(runs)
    return [
        title,
        at_once,
        round(run.served_seconds, 2),
        round(run.served_seconds / ideal, 2),
        round(statistics.median(map(_own_ms, runs)), 2),
        round(statistics.median(map(_own_running_ms, runs)), 2),
        round(statistics.median(each.after_seconds for each in runs), 1),
        round(run.peak_mb),
    ]


def stored(folder: Path) -> Stored:
    """Counted in the database itself; nothing if there is none yet."""
    database = folder / "mlflow.db"
    if not database.exists():
        return Stored()
    with closing(sqlite3.connect(database, timeout=30)) as store:
        try:
            return Stored(
                *(
                    store.execute(f"SELECT COUNT(*) FROM {what}").fetchone()[0]
                    for what in ("trace_info WHERE status = 'OK'", "spans", "assessments")
                )
            )
        except sqlite3.OperationalError:  # killed while it made its tables
            return Stored()


def _own_ms(run: Measured) -> float:
    return 1000 * run.own_cpu_seconds / run.requests


def _own_running_ms(run: Measured) -> float:
    return 1000 * (run.own_cpu_seconds - run.started_cpu_seconds) / run.requests


def _figures(run: Measured) -> dict[str, float]:
    return run.figures() | {"own_cpu_ms_per_call": round(_own_ms(run), 3), "after_s": round(run.after_seconds, 3)}


def _shortly(error: FailedError) -> str:
    """The first line and the last: between them is a program's output."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " … ".join(dict.fromkeys((lines[0], lines[-1][-300:])))
