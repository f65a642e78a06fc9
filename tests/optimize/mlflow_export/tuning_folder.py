"""A tuning run's folder made by hand, as `optimize/run.py` leaves it, and what MLflow has of one.

    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict())

Each has a system, a run id and sealed questions of its own: all tests share one store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

from eval.config.tracking import LocalTracking
from eval.execution.budget import Spend
from eval.mlflow_export.tracked_run import connect
from eval.runs.own_runs import note_run
from eval.runs.run_info import RunInfo, TuningTask
from eval.runs.store import PROPOSAL
from mas.prompt_sets.prompt_set import PromptSet, digest, write_prompt_set
from optimize.search.optimizer import PARENT
from optimize.session.tuning_store import PROMPTS
from tests.eval.stored_tuning import TASK, store_tuning

STARTED, ENDED = "2026-11-21T10:00:00+00:00", "2026-11-21T11:00:00+00:00"
TEXTS = {"planner": "You plan.", "finalizer": "You answer."}
_numbers = count()


def a_proposal(number: int, decision: str = "accepted", parent: str = PARENT, **changes: Any) -> dict[str, Any]:
    return {
        "candidate_id": f"c{number:03}",
        "parent_ids": [parent],
        "agents": ["finalizer"],
        "origin": "reflection",
        "decision": decision,
        "reason": f"reason {number}",
        "val_score": 0.25 * number if decision == "accepted" else None,
        **changes,
    }


PROPOSALS = (a_proposal(1), a_proposal(2, "rejected", parent="c001"), a_proposal(3, "cut_off"))


def verdict(published: bool = True, winner: str | None = "c001", **changes: Any) -> dict[str, Any]:
    return {
        "published": published,
        "finish_reason": "improved" if published else "not_significant",
        "best_val": None,
        "null_gain": None,
        "labels": [],
        "reasons": ["the gain is too small"],
        **({"set": "prompts/tuned"} if published else {}),
        "spend": vars(Spend(metric_calls=60, lm_calls=180, cost_usd=1.5)),
        **(_tested(winner) if winner else {}),
        **changes,
    }


def _tested(winner: str) -> dict[str, Any]:
    return {
        "metric": "accuracy",
        "gain": 0.125,
        "gain_ci95": [0.01, 0.24],
        "p": 0.03,
        "baseline": _side(0.25, [0.2, 0.3]),
        "winner": {"candidate_id": winner, **_side(0.375, [0.3, 0.45])},
        "failed_questions": [],
        "sealed": {
            "n_questions": 8, "n_sealed": 8, "epochs": 5, "wins": 4, "losses": 1, "ties": 3, "test": "sign flip",
            "looks": 1, "look": 1, "look_level": 0.03, "level": 0.03, "level_left": 0.02, "gain_interval": None,
            "opened_before": 0, "known_to_parent": 0,
        },
        "gate": {"checks": ["passed: the gain is above 0"]},
    }  # fmt: skip


def _side(score: float, ci95: list[float]) -> dict[str, Any]:
    return {"accuracy": score, "ci95": ci95, "score": score, "score_ci95": ci95, "errors": {}}


def a_tuning(
    folder: Path,
    proposals: Sequence[Mapping[str, Any]] = (),
    *,
    tracking: LocalTracking | None = None,
    verdict: Mapping[str, Any] | None = None,
    shortlist: Sequence[Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Path:
    """
    Args:
        folder: to be made.
        proposals: of the search.
        tracking: where MLflow keeps the run.
        verdict: None: there is none yet.
        shortlist: rows of it.
        config: more of it.
        facts: fields of RunInfo, of TuningTask, of RunState and of its session; `prompts_name`: of the first set.
    """
    number = next(_numbers)
    own = str(facts.get("system", f"tuned_{number}"))
    where = {"_target_": "eval.config.tracking.LocalTracking", **asdict(tracking)} if tracking else {}
    settings = {"optimizer": {"name": "gepa"}, "budget": {"usd": None, "metric_calls": 600}, "tracking": where}
    ids = {"run_id": f"tuning-{number}", "name": f"set_{number}", "sealed_digest": f"5e{number}"}
    known: dict[str, Any] = {"system": own, "model": "gpt-4o-mini", "reflection_model": "gpt-4o", "seed": 7, **ids}
    known |= {"started_at": STARTED, "ended_at": ENDED, "phase": "sealed", "origin": {"mlflow.user": "ann"}, **facts}
    task = {each.name: known.pop(each.name) for each in fields(TuningTask) if each.name in known}
    opened = known.pop("sealed_opened_before", 2 if "winner" in (verdict or {}) else None)
    parent = PromptSet("parent", own, TEXTS, folder)
    about = {each.name: known.pop(each.name) for each in fields(RunInfo) if each.name in known}
    info = RunInfo(
        **about, config={**settings, **(config or {})}, prompts_sha256=digest(parent),
        tuning=replace(TASK, **task),
    )  # fmt: skip
    write_prompt_set(folder / "prompts", parent)
    results: dict[str, object] = {"splits": {"train": ["q1"], "val": ["q2"], "sealed": ["q3"]}}
    for each in proposals:
        results |= propose(each, own)
    if opened is not None:
        results["sealed"] = {"n_earlier": opened}
    if shortlist:
        results["shortlist"] = list(shortlist)
    if verdict:
        results |= {"leaks": {}, "verdict": _with_digest(results, verdict)}
    store_tuning(folder, info, results, started_at=about["started_at"], **known)
    note_run(info.run_id, folder)
    return folder


def _with_digest(results: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict with the SHA-256 of its winner's prompts."""
    winner = verdict.get("winner") or {}
    kept = results.get(f"{PROMPTS}{winner.get('candidate_id')}")
    return {**verdict, "winner": {**winner, "prompts_sha256": kept["sha256"]}} if kept else dict(verdict)


def propose(proposal: Mapping[str, Any], system: str) -> dict[str, object]:
    """Return the results that a proposal is."""
    name = proposal["candidate_id"]
    texts = {**TEXTS, "finalizer": f"You answer, as {name} of {system} does."}
    return keep_candidate(proposal, PromptSet(name, system, texts, Path()))


def keep_candidate(proposal: Mapping[str, Any], prompts: PromptSet) -> dict[str, object]:
    """Return the results that a proposal of these prompts is."""
    kept = {"texts": prompts.texts, "demos": prompts.demos, "sha256": digest(prompts)}
    name = proposal["candidate_id"]
    return {f"{PROMPTS}{name}": kept, f"{PROPOSAL}{name}": proposal}


def client(settings: LocalTracking) -> Any:
    return connect(settings)[0]
