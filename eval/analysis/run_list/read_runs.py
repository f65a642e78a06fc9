"""All runs and tuning runs below some folders, read as data: whatever a folder holds, it is one entry of the list.

    newest = read_runs([OUTPUTS])[0]
    newest.name, newest.state, newest.score       # "2026-11-21_10-00-00_night", "complete", 0.72
    select_runs(read_runs([OUTPUTS]), ["gpt-4o", "night"])        # those in whose texts both words occur

A run's numbers come from its `summary.json` where nothing was written to the run since; those of others, such as one
that goes on, from its records.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from eval.analysis.statistics.intervals import Interval
from eval.analysis.summary.summarise import GOING_ON, summarise_store
from eval.analysis.summary.summary import Summary, build_from_json, read_summary
from eval.runs.find import check_entries
from eval.runs.folder import DATABASE, FACTS, RECORDS, TUNING_FILE, is_in_use
from eval.runs.own_runs import refuse_unreadable
from eval.runs.run_info import SILENT
from eval.runs.store import open_run
from eval.scorers.score import ACCURACY
from mas.runtime.errors import UserError

EVALUATION, TUNING = "evaluation", "tuning"
COMPLETE, STOPPED, RUNNING, CRASHED, REFUSED = "complete", "stopped", "running", "crashed", "refused"
_SUMMARY = "summary.json"
_SKIPPED = ("mlflow-artifacts", "cache", "gold")  # folders of outputs/ without runs
_MAX_DEPTH = 4  # of a run's folder below the given one
_MAX_CHARS = 300  # of a reason


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
    cost_usd: float | None = None
    started_at: str = ""  # UTC, ISO 8601
    seconds: float | None = None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def remark(self) -> str:
        """Why the run is not complete, and why it measures nothing; empty for any other."""
        return "; ".join(filter(None, (self.reason, self.no_measurement)))

    def to_dict(self) -> dict[str, object]:
        return {"name": self.name, **asdict(self), "folder": str(self.folder)}


def read_runs(roots: Iterable[Path]) -> list[RunEntry]:
    """Read all runs below the folders, the newest first; links are not followed."""
    found = dict.fromkeys(folder for root in roots for folder in find_run_folders(root.absolute()))
    runs = list(map(read_entry, found))
    return sorted(runs, key=lambda run: (run.started_at, run.name), reverse=True)


def read_entry(folder: Path) -> RunEntry:
    """Read one run; of what cannot be read, the entry has the reason."""
    kind = TUNING if (folder / TUNING_FILE).is_file() else EVALUATION
    entry = RunEntry(folder=folder, kind=kind)
    try:
        check_entries(folder)
        return _read_tuning(entry) if kind == TUNING else _read_evaluation(entry)
    except UserError as error:
        return replace(entry, reason=str(error).replace(f"{folder}/", "")[:_MAX_CHARS])


def find_run_folders(root: Path) -> Iterator[Path]:
    """Yield the folder of each run below a folder, nothing of which is read."""
    for place, folders, files in os.walk(root):  # an unreadable folder has nothing in it
        folder = Path(place)
        depth = len(folder.relative_to(root).parts)
        if is_run := not {TUNING_FILE, DATABASE, FACTS}.isdisjoint(files):
            yield folder
        names = [name for name in folders if not name.startswith(".") and (depth or name not in _SKIPPED)]
        folders[:] = [] if is_run or depth >= _MAX_DEPTH else names


def _read_evaluation(entry: RunEntry) -> RunEntry:
    summary = _read_summary(entry.folder)
    state, reason = _read_state(entry.folder, summary.stopped) if summary.incomplete else (COMPLETE, "")
    usage, score = summary.usage, () if summary.no_measurement else ("score", "score_ci95")
    same = ("run_id", "simulated", "no_measurement", "metric", "n", *score)
    return replace(
        entry,
        **{name: getattr(summary, name) for name in same},
        state=state,
        reason=reason,
        system=summary.system or "",
        model=summary.model or "",
        data="/".join(filter(None, (summary.data, summary.split))),
        prompts=summary.prompts or "",
        is_floor=summary.incomplete,
        cost_usd=None if usage.cost_usd is None else usage.cost_usd + summary.scorer_usage.known_cost_usd,
        started_at=summary.sessions[0].started_at if summary.sessions else entry.started_at,
        seconds=summary.wall_seconds,
    )


def _read_summary(folder: Path) -> Summary:
    """Return the summary that the run has written, or a new one if something was written to the run since."""
    path = folder / _SUMMARY
    with suppress(OSError, ValueError, RecursionError):
        if is_current(path):
            return read_summary(path)
    with refuse_unreadable(folder), open_run(folder) as store:
        return summarise_store(store)


def is_current(path: Path) -> bool:
    """Return whether a file that was made of a run is there, and nothing was written to the run since."""
    try:  # each row and fact is copied as it is written
        copied = [(path.parent / name).stat().st_mtime_ns for name in (FACTS, RECORDS)]
        return path.stat().st_mtime_ns >= max(copied)
    except OSError:
        return False


def _read_tuning(entry: RunEntry) -> RunEntry:
    with refuse_unreadable(entry.folder), open_run(entry.folder) as store:
        info, state, found = store.read_info(), store.read_state(), store.read_result("verdict")
    if info.tuning is None:
        raise UserError(f"{DATABASE} names no tuning run; it was made by another version of this program.")
    verdict, session = found or {}, state.last_session
    try:
        winner, spend = verdict.get("winner") or {}, verdict.get("spend") or state.spend
        why = (verdict.get("finish_reason") or "").replace("_", " ")
        run_state = COMPLETE
        reason = f"published as {verdict['set']}" if verdict.get("published") else f"not published: {why}"
        if not found:
            silent = STOPPED if session.ended_at else SILENT
            run_state, reason = _read_state(entry.folder, session.stopped or silent)
            reason = f"{SILENT}, in its phase {state.phase}" if run_state == CRASHED else reason
        known = {
            "state": run_state,
            "reason": reason,
            **{name: getattr(info, name) for name in ("run_id", "system", "model", "simulated")},
            "data": str(info.part("data").get("name") or ""),
            "prompts": info.tuning.name,
            "metric": verdict.get("metric") or ACCURACY,
            **{name: winner.get(name) for name in ("score", "score_ci95")},
            **{name: verdict.get(name) for name in ("gain", "gain_ci95")},
            "n": (verdict.get("sealed") or {}).get("n_questions"),
            "cost_usd": None if spend.get("unknown_cost_calls") else spend.get("cost_usd"),
            "started_at": info.started_at or entry.started_at,
            "seconds": spend.get("seconds"),
        }
        return build_from_json(RunEntry, vars(entry) | known)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise UserError("its verdict cannot be read; it was made by another version of this program.") from error


def _read_state(folder: Path, stopped: str | None) -> tuple[str, str]:
    if is_in_use(folder / DATABASE):
        return RUNNING, ""
    return (CRASHED, SILENT) if stopped in (None, GOING_ON, SILENT) else (STOPPED, stopped)


def parse_time(moment: str) -> datetime | None:
    """Return a moment in ISO 8601; None if the text is none. Without a zone it is UTC."""
    with suppress(ValueError):
        found = datetime.fromisoformat(moment)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None


def select_runs(runs: Iterable[RunEntry], words: Iterable[str]) -> list[RunEntry]:
    """Return the runs whose texts have all words, in any case."""

    def list_texts(run: RunEntry) -> str:
        known = (run.name, run.kind, run.state, run.reason, run.system, run.model, run.data, run.prompts, run.run_id)
        return "\n".join(known).casefold()

    wanted = [word.casefold() for word in words]
    return [run for run in runs if all(word in list_texts(run) for word in wanted)]
