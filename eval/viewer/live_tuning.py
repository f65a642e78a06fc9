"""A tuning run as it goes on: phases, spend, candidates and their validation scores, read from its folder as data.

    live = LiveTuning(folder)
    live.poll()             # {"state": "running", "phases": […], …}: the values of live_tuning.html.jinja

Of the sealed test only the number of answers is read: a score that anybody saw before the verdict could decide whether
the test goes on, and then its p would mean nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eval.analysis.run_list.foreign_json import as_interval, as_list, as_mapping, as_number, as_text, read_object
from eval.analysis.run_list.read_runs import TUNING, read_entry
from eval.execution.projection import Progress, project
from eval.reports.formats import NOT_AVAILABLE, format_interval, format_percent
from eval.runs.folder import DATABASE, is_in_use
from eval.runs.run_info import TUNING_PROGRESS, RunInfo, RunState
from eval.runs.store import PROPOSAL, RunStore
from eval.viewer.live_run import measure_seconds

PHASES = ("preflight", "baseline", "search", "shortlist", "sealed", "gate")
MAX_SHOWN = 40  # candidates, the newest first
Json = dict[str, object]


class LiveTuning:
    """Everything that the page of a live tuning run shows. One thread at a time calls `poll`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store: RunStore | None = None
        self._entry = read_entry(folder, TUNING)

    def poll(self) -> Json:
        """Return the values of the page.

        Raises:
            StoreError: the run's store cannot be read.
        """
        if self._store is None:
            self._store = RunStore(self.folder / DATABASE, read_only=True)
        entry, info, state = self._entry, self._store.read_info(), self._store.read_state()
        results = {name: self._store.read_result(name) for name in ("verdict", "splits", "baseline", "shortlist")}
        budget = info.part("budget")
        is_running = is_in_use(self.folder / DATABASE)
        progress = read_object(self.folder / TUNING_PROGRESS)
        phase, elapsed = as_text(state.phase), _measure_elapsed(state, is_running)
        verdict = as_mapping(results.get("verdict"))
        is_final = bool(verdict) and verdict.get("resumable") is not True
        sealed = _count_sealed(self._store, info, results, state, elapsed) if phase in ("sealed", "gate") else None
        spend = _read_spend(state, progress)
        candidates = list(map(as_mapping, self._store.read_results(PROPOSAL).values()))
        candidates.sort(key=lambda each: as_number(each.get("place")) or 0)
        scores = [each for line in candidates if (each := as_number(line.get("val_score"))) is not None]
        baseline = as_mapping(results.get("baseline"))
        is_searching = is_running and phase in ("baseline", "search")
        model = f"{entry.model} (simulated)" if entry.simulated else entry.model
        parts = {"system": entry.system, "model": model, "data": entry.data, "new set": entry.prompts}
        parts["optimizer"] = as_text(info.tuning.optimizer) if info.tuning else ""
        if sealed and not is_running:
            sealed["eta_seconds"] = None
        return {
            "state": "running" if is_running else "ended",
            "title": f"{'sealed test' if phase == 'sealed' else phase} · {self.folder.name}",
            "about": " · ".join(f"{name} {value}" for name, value in parts.items() if value),
            "stopped": as_text(state.last_session.stopped),
            "verdict": read_entry(self.folder, TUNING).reason if is_final else "",
            "phases": _list_phases(phase, state, spend, is_final),
            "elapsed_seconds": elapsed,
            "eta_seconds": as_number(progress.get("eta_seconds")) if is_searching else None,
            "projected_cost_usd": as_number(progress.get("projected_cost_usd")) if is_searching else None,
            "requests": spend.get("lm_calls", 0),
            "cost_usd": spend.get("cost_usd", 0.0),
            "is_cost_known": not spend.get("unknown_cost_calls"),
            "budget_usd": as_number(budget.get("usd")),
            "answers": spend.get("metric_calls", 0),
            "budget_answers": as_number(budget.get("metric_calls")),
            "baseline": as_number(baseline.get("val_score")),
            "baseline_ci95": as_interval(baseline.get("ci95")),
            "n_candidates": len(candidates),
            "n_accepted": sum(each.get("decision") == "accepted" for each in candidates),
            "best": max(scores, default=None),
            "candidates": [_describe_candidate(each) for each in candidates[::-1][:MAX_SHOWN]],
            "shortlist": [_describe_shortlisted(as_mapping(each)) for each in as_list(results.get("shortlist"))],
            "sealed": sealed,
        }

    def close(self) -> None:
        if self._store:
            self._store.close()


def _count_sealed(
    store: RunStore, info: RunInfo, results: Mapping[str, object], state: RunState, elapsed: float
) -> Json:
    """Return how many sealed answers there are, of at most how many, and the time that the rest takes at most."""
    ids = [as_text(each) for each in as_list(as_mapping(results.get("splits")).get("sealed"))]
    done, epochs = store.count_answers(ids), as_number(info.part("gate").get("epochs")) or 1
    total = int(2 * epochs * len(ids))
    began = as_mapping(as_mapping(state.spend_by_phase).get("sealed")).get("seconds")
    seconds = max(elapsed - (as_number(began) or 0.0), 0.0)
    at_once = as_number(info.part("run").get("concurrency")) or 1
    projected = project(Progress(done, max(total, done), max(int(at_once), 1)), seconds, None)
    return {"done": done, "total": max(total, done), "eta_seconds": projected.eta_seconds}


def _read_spend(state: RunState, progress: Mapping[str, object]) -> dict[str, float]:
    """Return the newest spend: of the last phase's beginning, or of the progress file."""
    found = [
        {name: number for name, each in as_mapping(spend).items() if (number := as_number(each)) is not None}
        for spend in (state.spend, progress.get("spend"))
    ]
    return max(found, key=lambda each: each.get("lm_calls", 0.0))


def _list_phases(phase: str, state: RunState, spend: Mapping[str, float], is_final: bool) -> list[Json]:
    """Return the phases with what each has taken so far."""
    begun = as_mapping(state.spend_by_phase)
    starts = {name: as_mapping(begun.get(name)) for name in PHASES}
    here = PHASES.index(phase) if phase in PHASES else len(PHASES)
    found: list[Json] = []
    for place, name in enumerate(PHASES):
        is_begun = bool(starts[name]) or place < here
        mark = "done" if is_final or (is_begun and place < here) else "now" if name == phase else "next"
        after = next((starts[each] for each in PHASES[place + 1 :] if starts[each]), spend)
        took = (as_number(after.get("lm_calls")) or 0.0) - (as_number(starts[name].get("lm_calls")) or 0.0)
        found.append({"name": name, "mark": mark, "requests": max(took, 0.0) if starts[name] else 0})
    return found


def _describe_candidate(line: Mapping[str, object]) -> tuple[str, ...]:
    """Return id, decision, what it changes, score on the validation questions or on a few, and why."""
    agents, parents = ", ".join(_list_texts(line.get("agents"))), " and ".join(_list_texts(line.get("parent_ids")))
    origin, score = as_text(line.get("origin")), as_number(line.get("val_score"))
    before, after = as_number(line.get("minibatch_before")), as_number(line.get("minibatch_after"))
    changes = f"{agents or 'no agent'}{f' by {origin}' if origin else ''}{f' from {parents}' if parents else ''}"
    few = NOT_AVAILABLE if after is None else f"{format_percent(before)} → {format_percent(after)} (few questions)"
    decision = as_text(line.get("decision")).replace("_", " ")
    shown = few if score is None else format_percent(score)
    return as_text(line.get("candidate_id")), decision, changes, shown, as_text(line.get("reason"))


def _describe_shortlisted(row: Mapping[str, object]) -> tuple[str, ...]:
    scores = (format_percent(as_number(row.get(name))) for name in ("val_score", "fresh_score"))
    bounds = as_interval(row.get("fresh_ci95"))
    return as_text(row.get("candidate_id")), *scores, format_interval(bounds) if bounds else ""


def _list_texts(values: object) -> Sequence[str]:
    return [text for each in as_list(values)[:20] if (text := as_text(each))]


def _measure_elapsed(state: RunState, is_running: bool) -> float:
    """Return the wall time of all sessions."""
    if not is_running:
        return as_number(as_mapping(state.spend).get("seconds")) or 0.0
    return (as_number(state.wall_seconds) or 0.0) + measure_seconds(as_text(state.last_session.started_at))
