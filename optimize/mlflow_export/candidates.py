"""A tuning run's proposals as children of its run in MLflow: scores, fate, and the diff to their parent's prompts.

Each is found by its `candidate_id` below its parent, and sent again only if it has something new, mostly a fresh score
of the shortlist. The folder has no times of proposals: in MLflow they begin in their order, a millisecond apart. Lists
cut a name to a dozen characters, so it begins with what differs.

    send_candidates(parent, tuning)          # {"c001": "0f3a…", "c002": "77b1…"}: MLflow's ids
"""

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from eval.mlflow_export.run_page import MAX_TAG_CHARS, RunPage, write_page
from eval.mlflow_export.tracked_run import PARENT_TAG, TrackedRun, search_runs
from eval.mlflow_export.values import truncate
from mas.runtime.errors import UserError
from optimize.mlflow_export.page import build_notice, flatten_metrics, name_interval
from optimize.publishing.prompt_diff import format_unified_diff
from optimize.search.candidate import PARENT
from optimize.session.tuning_store import ProposalRow, TuningSnapshot

if TYPE_CHECKING:
    from mlflow.entities import Run

CANDIDATE_TAG = "candidate_id"
DIGEST_TAG = "harness.sha256"  # of all that was sent, written last: without it a child is not whole


def send_candidates(parent: TrackedRun, tuning: TuningSnapshot) -> dict[str, str]:
    """Bring every proposal up to what the folder has; return the id in MLflow of each candidate.

    Raises:
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    there = find_children(parent)
    for number, proposal in enumerate(tuning.proposals, start=1):
        _send(parent, tuning, proposal, number, there.get(proposal.candidate_id))
    return {name: str(each.info.run_id) for name, each in find_children(parent).items()}


def find_children(parent: TrackedRun) -> "dict[str, Run]":
    """Map each candidate to its run in MLflow, the oldest of several."""
    found: dict[str, Run] = {}
    condition = f"tags.`{PARENT_TAG}` = '{parent.run_id}'"
    for each in search_runs(parent.client, [parent.experiment_id], condition, ["attributes.start_time ASC"]):
        if name := each.data.tags.get(CANDIDATE_TAG):
            found.setdefault(name, each)
    return found


def _send(parent: TrackedRun, tuning: TuningSnapshot, proposal: ProposalRow, number: int, there: "Run | None") -> None:
    page, diff = _build_page(parent, tuning, proposal), _build_diff(tuning, proposal)
    name = _build_name(tuning, proposal)
    digest = hashlib.sha256(json.dumps([name, page.tags, page.metrics, diff], sort_keys=True).encode()).hexdigest()
    if there is not None and there.data.tags.get(DIGEST_TAG) == digest:
        return
    start_ms = tuning.start_ms + number
    if there is None:
        tags = {PARENT_TAG: parent.run_id, CANDIDATE_TAG: proposal.candidate_id}
        there = parent.client.create_run(parent.experiment_id, start_time=start_ms, tags=tags, run_name=name)
    child = replace(parent, run_id=str(there.info.run_id))
    if there.info.run_name != name:
        child.client.update_run(child.run_id, name=name)
    write_page(child, page)
    if diff:
        child.client.log_text(child.run_id, diff, "prompt_diff.txt")
    child.finish("KILLED" if proposal.decision == "cut_off" else "FINISHED", start_ms)
    child.client.set_tag(child.run_id, DIGEST_TAG, digest)


def _build_name(tuning: TuningSnapshot, proposal: ProposalRow) -> str:
    """Return a name such as `c004 val 63.3%, accepted: planner`; `val` says that the score is not a test result."""
    agents = f": {' '.join(proposal.agents)}" if proposal.agents else ""
    return tuning.mark_simulated(f"{proposal.candidate_id} {_describe_fate(tuning, proposal)}{agents}")[:250]


def _describe_fate(tuning: TuningSnapshot, proposal: ProposalRow) -> str:
    scored = "" if proposal.val_score is None else f"val {100 * proposal.val_score:.1f}%, "
    return scored + ("winner" if proposal.candidate_id == tuning.winner else proposal.decision.replace("_", " "))


def _build_page(parent: TrackedRun, tuning: TuningSnapshot, proposal: ProposalRow) -> RunPage:
    fresh = tuning.shortlist.get(proposal.candidate_id) or {}
    tags = {
        PARENT_TAG: parent.run_id,
        CANDIDATE_TAG: proposal.candidate_id,
        "parent_ids": ", ".join(proposal.parent_ids),
        "agents": ", ".join(proposal.agents),
        "decision": proposal.decision,
        "reason": proposal.reason,
        "origin": proposal.origin,
        "simulated": json.dumps(tuning.info.simulated),
        "winner": "true" if proposal.candidate_id == tuning.winner else "",
        "harness.kind": "candidate",
        "mlflow.note.content": "\n\n".join(filter(None, [build_notice(tuning), proposal.reason])),
    }
    scores = ("val_score", "minibatch_before", "minibatch_after", "iteration", "spend")
    numbers = {name: getattr(proposal, name) for name in scores} | {"fresh_score": fresh.get("fresh_score")}
    metrics = flatten_metrics(numbers | name_interval("fresh_ci95", fresh.get("fresh_ci95")))
    return RunPage(tags={name: truncate(text, MAX_TAG_CHARS) for name, text in tags.items() if text}, metrics=metrics)


def _build_diff(tuning: TuningSnapshot, proposal: ProposalRow) -> str:
    """Return the diff of its prompts to the first parent's; empty if the run has not both, or they were changed."""
    try:
        old = tuning.get_prompts(next(iter(proposal.parent_ids), PARENT))
        new = tuning.get_prompts(proposal.candidate_id)
    except UserError:
        return ""
    return format_unified_diff(old, new)
