"""A tuning run's proposals as children of its run in MLflow: scores, fate, prompt texts and their diff to the parent's.

Each is found by its `candidate_id` below its parent, and sent again only if something of it is new: a fresh score of
the shortlist, mostly. Accepted or rejected stays so. The folder keeps no times of proposals; they begin, in MLflow, in
their order, a millisecond apart. Lists cut a name to a dozen characters: it begins with what differs.

    send_candidates(parent, tuning)          # {"c001": "0f3a…", "c002": "77b1…"}: MLflow's ids
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eval.mlflow_export.run_page import MAX_TAG_CHARS, RunPage, write_page
from eval.mlflow_export.tracked_run import PARENT_TAG, TrackedRun, search_runs
from eval.mlflow_export.values import truncate
from mas.prompt_sets.prompt_set import SUFFIX, PromptSet
from optimize.mlflow_export.folder import DECIDED, TuningSnapshot
from optimize.mlflow_export.page import build_interval_metrics, flatten_metrics, select_finite
from optimize.mlflow_export.report import build_notice

if TYPE_CHECKING:
    from mlflow.entities import Run

CANDIDATE_TAG = "candidate_id"
DIGEST_TAG = "harness.sha256"  # of all that was sent, written last: without it a child is not whole
_DIFF = "prompt_diff.txt"


def send_candidates(parent: TrackedRun, tuning: TuningSnapshot) -> dict[str, str]:
    """Bring every proposal up to what the folder has.

    Raises:
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    there = find_children(parent)
    for number, proposal in enumerate(tuning.proposals, start=1):
        _send(parent, tuning, proposal, number, there.get(proposal["candidate_id"]))
    return {name: str(each.info.run_id) for name, each in find_children(parent).items()}


def find_children(parent: TrackedRun) -> "dict[str, Run]":
    """Map each candidate to its run in MLflow, the oldest of several."""
    found: dict[str, Run] = {}
    condition = f"tags.`{PARENT_TAG}` = '{parent.run_id}'"
    for each in search_runs(parent.client, [parent.experiment_id], condition, ["attributes.start_time ASC"]):
        if name := each.data.tags.get(CANDIDATE_TAG):
            found.setdefault(name, each)
    return found


def _send(parent: TrackedRun, tuning: TuningSnapshot, proposal: Mapping[str, Any], number: int, there: Any) -> None:
    known_tags: Mapping[str, str] = there.data.tags if there else {}
    decision = known_tags.get("decision")
    if decision in DECIDED and decision != proposal["decision"]:
        return
    page, files = _page(parent, tuning, proposal), _files(tuning, proposal)
    name = _name(tuning, proposal)
    digest = hashlib.sha256(json.dumps([name, page.tags, page.metrics, files], sort_keys=True).encode()).hexdigest()
    if known_tags.get(DIGEST_TAG) == digest:
        return
    start_ms = tuning.start_ms + number
    run_id = str(there.info.run_id) if there else _made(parent, proposal, name, start_ms)
    child = TrackedRun(parent.client, parent.tracing, parent.shown_uri, parent.experiment_id, run_id)
    if there and there.info.run_name != name:
        child.client.update_run(run_id, name=name)
    write_page(child, page)
    for file, text in files.items():
        child.client.log_text(run_id, text, file)
    child.finish("KILLED" if page.tags["decision"] == "cut_off" else "FINISHED", start_ms)
    child.client.set_tag(run_id, DIGEST_TAG, digest)


def _made(parent: TrackedRun, proposal: Mapping[str, Any], name: str, start_ms: int) -> str:
    tags = {PARENT_TAG: parent.run_id, CANDIDATE_TAG: proposal["candidate_id"]}
    made = parent.client.create_run(parent.experiment_id, start_time=start_ms, tags=tags, run_name=name)
    return str(made.info.run_id)


def _name(tuning: TuningSnapshot, proposal: Mapping[str, Any]) -> str:
    """`c004 val 63.3%, accepted: planner`: `val` says that no test is meant."""
    decision, score = str(proposal["decision"]), proposal.get("val_score")
    known_whole = score is not None and decision in DECIDED  # cut off, it was asked a part of the questions
    scored = f"val {100 * float(score or 0):.1f}%, " if known_whole else ""
    fate = "winner" if _has_won(tuning, proposal) else decision.replace("_", " ")
    agents = " ".join(proposal.get("agents") or ())
    return tuning.shown_name(f"{proposal['candidate_id']} {scored}{fate}{f': {agents}' if agents else ''}")[:250]


def _has_won(tuning: TuningSnapshot, proposal: Mapping[str, Any]) -> bool:
    return bool((tuning.verdict.get("winner") or {}).get("candidate_id") == proposal["candidate_id"])


def _page(parent: TrackedRun, tuning: TuningSnapshot, proposal: Mapping[str, Any]) -> RunPage:
    candidate_id = str(proposal["candidate_id"])
    fresh = tuning.shortlist.get(candidate_id) or {}
    tags = {
        PARENT_TAG: parent.run_id,
        CANDIDATE_TAG: candidate_id,
        "parent_ids": ", ".join(proposal.get("parent_ids") or ()),
        "agents": ", ".join(proposal.get("agents") or ()),
        "decision": str(proposal["decision"]),
        "reason": str(proposal.get("reason") or ""),
        "origin": str(proposal.get("origin") or ""),
        "simulated": json.dumps(tuning.simulated),
        "winner": "true" if _has_won(tuning, proposal) else "",
        "harness.kind": "candidate",
        "mlflow.note.content": "\n\n".join(filter(None, [build_notice(tuning), str(proposal.get("reason") or "")])),
    }
    scores = ("val_score", "minibatch_before", "minibatch_after", "iteration")
    metrics = select_finite({name: proposal.get(name) for name in scores}) | flatten_metrics(
        "spend", proposal.get("spend")
    )
    metrics |= select_finite({"fresh_score": fresh.get("fresh_score")}) | build_interval_metrics(
        "fresh_ci95", fresh.get("fresh_ci95")
    )
    return RunPage(tags={name: truncate(text, MAX_TAG_CHARS) for name, text in tags.items() if text}, metrics=metrics)


def _files(tuning: TuningSnapshot, proposal: Mapping[str, Any]) -> dict[str, str]:
    """The texts and demos that differ from the first parent's, and how they do."""
    from optimize.publishing.prompt_diff import format_unified_diff

    new, old = tuning.prompts(str(proposal["candidate_id"])), tuning.parent_prompts(proposal)
    if new is None or old is None:
        return {}
    return {**_changed(old, new), _DIFF: format_unified_diff(old, new)}


def _changed(old: PromptSet, new: PromptSet) -> dict[str, str]:
    texts = {
        f"prompts/{agent}{SUFFIX}": f"{text}\n" for agent, text in new.texts.items() if old.texts.get(agent) != text
    }
    demos = {
        f"prompts/{agent}_demos.json": json.dumps(new.demos.get(agent, []), indent=2, ensure_ascii=False) + "\n"
        for agent in new.texts
        if old.demos.get(agent, []) != new.demos.get(agent, [])
    }
    return texts | demos
