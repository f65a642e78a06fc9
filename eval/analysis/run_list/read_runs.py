"""All runs and tuning runs below some folders, read as data: whatever a folder holds, it is one entry of the list.

    found = read_runs([OUTPUTS])
    found.runs[0].name, found.runs[0].state, found.runs[0].score       # "2026-11-21_10-00-00_night", "complete", 0.72
    found.pages                                                         # other pages: comparisons

A run's numbers come from its `summary.json` where nothing was written to the run since, so that 500 runs take about a
second. Only of others, such as one that goes on, the store is opened. A folder with a link, or with a store of another
program, becomes an entry that says so.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from eval.analysis.run_list.foreign_json import (
    EMPTY,
    Interval,
    as_interval,
    as_list,
    as_mapping,
    as_number,
    as_text,
    read_object,
)
from eval.runs.folder import DATABASE, FACTS, RECORDS, REPORT, TUNING_FILE, check_entries, is_in_use
from eval.runs.run_info import SILENT
from eval.scorers.score import ACCURACY
from mas.runtime.errors import UserError

EVALUATION, TUNING = "evaluation", "tuning"
COMPLETE, STOPPED, RUNNING, CRASHED, REFUSED = "complete", "stopped", "running", "crashed", "refused"
STATES = (COMPLETE, STOPPED, RUNNING, CRASHED, REFUSED)
INDEX = "index.html"
_SUMMARY = "summary.json"
_SKIPPED = ("mlflow-artifacts", "cache", "gold")  # folders of outputs/ without runs
_MAX_DEPTH = 4  # of a run's folder below the given one
_MAX_FOLDERS = 100_000
_MAX_PAGES = 1_000
_MAX_CHARS = 300  # of a reason
_TIME_CHARS = 19  # of a folder's name


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run. Empty texts and None are unknown."""

    folder: Path
    kind: str
    state: str = REFUSED
    reason: str = ""  # of a run that is not complete; of a tuning run its outcome
    run_id: str = ""
    system: str = ""
    model: str = ""
    simulated: bool = False
    no_measurement: str = ""  # why it measures no system: it is part of a proof, and has no score here
    data: str = ""
    prompts: str = ""
    metric: str = ACCURACY
    score: float | None = None  # of a tuning run: of the winner on the sealed questions
    score_ci95: Interval | None = None
    is_floor: bool = False  # answers are missing, and count as wrong
    gain: float | None = None  # of a tuning run, as its interval
    gain_ci95: Interval | None = None
    n: int | None = None  # answers; of a tuning run the sealed questions
    n_answered: int | None = None  # of a run without a summary
    cost_usd: float | None = None
    started_at: str = ""  # UTC, ISO 8601
    seconds: float | None = None
    size_bytes: int = 0
    report: Path | None = None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def remark(self) -> str:
        """Why the run is not complete, and why it measures nothing; empty for any other."""
        return "; ".join(filter(None, (self.reason, self.no_measurement)))

    def to_dict(self) -> dict[str, object]:
        paths = {"folder": str(self.folder), "report": str(self.report) if self.report else None}
        return {"name": self.name, **asdict(self), **paths}


@dataclass(frozen=True)
class FoundRuns:
    runs: list[RunEntry] = field(default_factory=list)  # the newest first
    pages: list[Path] = field(default_factory=list)  # pages that are of no run, such as comparisons


def read_runs(roots: Iterable[Path]) -> FoundRuns:
    """Read all runs below the folders; links are not followed."""
    runs: dict[Path, RunEntry] = {}
    pages: list[Path] = []
    for root in roots:
        for folder, kind in find_run_folders(root.absolute(), pages):
            runs[folder] = read_entry(folder, kind)
    ordered = sorted(runs.values(), key=lambda run: (run.started_at, run.name), reverse=True)
    return FoundRuns(ordered, sorted(pages)[:_MAX_PAGES])


def read_entry(folder: Path, kind: str) -> RunEntry:
    """Read one run; of what cannot be read, the entry has the reason."""
    entry = RunEntry(folder=folder, kind=kind, started_at=_read_time(folder))
    try:
        size = check_entries(folder)
        entry = replace(entry, size_bytes=size, report=_find_report(folder))
        return _read_tuning(entry) if kind == TUNING else _read_evaluation(entry)
    except UserError as error:
        return replace(entry, reason=str(error).replace(f"{folder}/", "")[:_MAX_CHARS])


def find_run_folders(root: Path, pages: list[Path]) -> Iterator[tuple[Path, str]]:
    """Yield folder and kind of each run below a folder, nothing of which is read; add other pages to `pages`."""
    left, n_folders = [(root, 0)], 0
    while left and n_folders < _MAX_FOLDERS:
        folder, depth = left.pop()
        n_folders += 1
        try:
            with os.scandir(folder) as entries:
                found = {each.name: each.is_dir(follow_symlinks=False) for each in entries}
        except OSError:
            continue
        if TUNING_FILE in found:
            yield folder, TUNING
        elif DATABASE in found or FACTS in found:
            yield folder, EVALUATION
        else:
            pages += [folder / name for name in found if name.endswith(".html") and name not in (INDEX, REPORT)]
            if depth < _MAX_DEPTH:
                names = [name for name, is_folder in found.items() if is_folder and not name.startswith(".")]
                left += [(folder / name, depth + 1) for name in names if depth or name not in _SKIPPED]


def _read_evaluation(entry: RunEntry) -> RunEntry:
    folder = entry.folder
    summary = read_object(folder / _SUMMARY) if _is_fresh(folder) else EMPTY
    if not as_text(summary.get("run_id")):
        summary = _read_store(folder)
    sessions = as_list(summary.get("sessions"))
    is_floor, stopped = summary.get("incomplete") is True, as_text(summary.get("stopped"))
    state, reason = (COMPLETE, "") if not is_floor else _read_state(folder / DATABASE, stopped)
    data, split = as_text(summary.get("data")), as_text(summary.get("split"))
    score, no_measurement = as_number(summary.get("score")), as_text(summary.get("no_measurement"))
    score = as_number(summary.get("accuracy")) if score is None else score
    interval = as_interval(summary.get("score_ci95")) or as_interval(summary.get("accuracy_ci95"))
    n, n_answered = as_number(summary.get("n")), as_number(summary.get("n_answered"))
    judged = as_number(as_mapping(summary.get("scorer_usage")).get("known_cost_usd")) or 0.0
    cost = as_number(as_mapping(summary.get("usage")).get("cost_usd"))
    return replace(
        entry,
        state=state,
        reason=reason,
        run_id=as_text(summary.get("run_id")),
        system=as_text(summary.get("system")),
        model=as_text(summary.get("model")),
        simulated=summary.get("simulated") is True,
        no_measurement=no_measurement,
        data=f"{data}/{split}" if data and split else data,
        prompts=as_text(summary.get("prompts")),
        metric=as_text(summary.get("metric")) or ACCURACY,
        score=None if no_measurement else score,
        score_ci95=None if no_measurement else interval,
        is_floor=is_floor and n_answered is None,
        n=None if n is None else int(n),
        n_answered=None if n_answered is None else int(n_answered),
        cost_usd=None if cost is None else cost + judged,
        started_at=as_text(as_mapping(sessions[0]).get("started_at") if sessions else "") or entry.started_at,
        seconds=as_number(summary.get("wall_seconds")),
    )


def _read_store(folder: Path) -> Mapping[str, object]:
    """Return what is known of a run whose summary is missing, or older than its records, by the summary's keys."""
    from eval.runs.foreign_run import refuse_unreadable
    from eval.runs.store import RunStore, StoreError

    try:
        with refuse_unreadable(folder), RunStore(folder / DATABASE, read_only=True) as store:
            info, state = store.read_info(), store.read_state()
            n, n_answered = len(store.list_planned_ids()) * info.epochs, len(store.read_last_attempts())
            return {
                "run_id": info.run_id,
                "system": info.system,
                "model": info.model,
                "simulated": info.simulated,
                "no_measurement": info.describe_gold(),
                "data": info.part("data").get("name"),
                "prompts": info.prompts_name,
                "incomplete": not state.finished or n_answered < n,
                "stopped": state.last_session.stopped,
                "n": n,
                "n_answered": n_answered,
                "usage": {"cost_usd": store.cost_usd()},
                "sessions": [{"started_at": info.started_at}],
                "wall_seconds": state.wall_seconds,
            }
    except StoreError as error:
        raise UserError(str(error)) from error


def _read_tuning(entry: RunEntry) -> RunEntry:
    from eval.runs.foreign_run import refuse_unreadable
    from eval.runs.store import open_run

    folder = entry.folder
    with refuse_unreadable(folder), open_run(folder) as store:
        info, state, verdict = store.read_info(), store.read_state(), as_mapping(store.read_result("verdict"))
    if info.tuning is None:
        raise UserError(f"{DATABASE} names no tuning run; it was made by another version of this program.")
    spend = as_mapping(verdict.get("spend")) or as_mapping(state.spend)
    sealed, winner = as_mapping(verdict.get("sealed")), as_mapping(verdict.get("winner"))
    n = as_number(sealed.get("n_questions"))
    score = as_number(winner.get("score"))
    known = not as_number(spend.get("unknown_cost_calls"))
    if verdict and verdict.get("resumable") is not True:
        published = verdict.get("published") is True
        reason = f"published as {as_text(verdict.get('set'))}" if published else as_text(verdict.get("finish_reason"))
        found = (COMPLETE, reason if published else f"not published: {reason.replace('_', ' ')}")
    else:
        session = state.last_session
        stopped = as_text(session.stopped) or ("a budget was used up" if verdict else "")
        found = _read_state(folder / DATABASE, stopped or (SILENT if not session.ended_at else STOPPED))
        if found == (STOPPED, SILENT):
            found = (CRASHED, f"{SILENT}, in its phase {as_text(state.phase)}")
    return replace(
        entry,
        state=found[0],
        reason=found[1],
        run_id=as_text(info.run_id),
        system=as_text(info.system),
        model=as_text(info.model),
        simulated=info.simulated is True,
        data=as_text(info.part("data").get("name")),
        prompts=as_text(info.tuning.name),
        metric=as_text(verdict.get("metric")) or ACCURACY,
        score=as_number(winner.get("accuracy")) if score is None else score,
        score_ci95=as_interval(winner.get("score_ci95")) or as_interval(winner.get("ci95")),
        gain=as_number(verdict.get("gain")),
        gain_ci95=as_interval(verdict.get("gain_ci95")),
        n=None if n is None else int(n),
        cost_usd=as_number(spend.get("cost_usd")) if known else None,
        started_at=as_text(info.started_at) or entry.started_at,
        seconds=as_number(spend.get("seconds")),
    )


def _read_state(locked: Path, stopped: str) -> tuple[str, str]:
    """Return state and reason of a run that is not complete."""
    if is_in_use(locked):
        return RUNNING, ""
    return (STOPPED, stopped) if stopped else (CRASHED, SILENT)


def _is_fresh(folder: Path) -> bool:
    """Return whether nothing was written to the run after its summary: each row and fact is copied as it is written."""
    try:
        return (folder / _SUMMARY).stat().st_mtime_ns >= max(
            (folder / name).stat().st_mtime_ns for name in (FACTS, RECORDS)
        )
    except OSError:
        return False


def _find_report(folder: Path) -> Path | None:
    path = folder / REPORT
    return path if path.is_file() else None


def _read_time(folder: Path) -> str:
    """Return the time in a folder's name, or else that of its last change; "" if it has gone."""
    try:
        return datetime.strptime(folder.name[:_TIME_CHARS], "%Y-%m-%d_%H-%M-%S").astimezone(UTC).isoformat()
    except ValueError:
        pass
    try:
        return datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat()
    except OSError:
        return ""
