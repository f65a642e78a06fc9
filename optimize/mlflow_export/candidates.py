"""A tuning run's proposals as children of its run in MLflow: scores, fate, and the diff to their parent's prompts.

Each is found by its `candidate_id` below its parent. The folder has no times of proposals: in MLflow they begin in
their order, a millisecond apart. Lists cut a name to a dozen characters, so it begins with what differs.

    send_candidates(parent, tuning, sent={})
    find_children(parent)["c001"].info.run_id          # "0f3a…", MLflow's id
"""

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


def send_candidates(parent: TrackedRun, tuning: TuningSnapshot, sent: dict[str, object]) -> None:
    """Bring every proposal up to what the folder has.

    Args:
        parent: the tuning run in MLflow.
        tuning: as its folder has it now.
        sent: candidate → what was sent of it; changed here.

    Raises:
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    there = find_children(parent)
    for number, proposal in enumerate(tuning.proposals, start=1):
        candidate_id = proposal.candidate_id
        content = _build_name(tuning, proposal), _build_page(parent, tuning, proposal), _build_diff(tuning, proposal)
        if sent.get(candidate_id) != content:
            _send(parent, there.get(candidate_id), tuning.start_ms + number, content)
            sent[candidate_id] = content


def find_children(parent: TrackedRun) -> "dict[str, Run]":
    """Map each candidate to its run in MLflow, the oldest of several."""
    found: dict[str, Run] = {}
    condition = f"tags.`{PARENT_TAG}` = '{parent.run_id}'"
    for each in search_runs(parent.client, [parent.experiment_id], condition, ["attributes.start_time ASC"]):
        if name := each.data.tags.get(CANDIDATE_TAG):
            found.setdefault(name, each)
    return found


def _send(parent: TrackedRun, there: "Run | None", start_ms: int, content: tuple[str, RunPage, str]) -> None:
    name, page, diff = content
    if there is None:
        there = parent.client.create_run(parent.experiment_id, start_time=start_ms, tags=page.tags, run_name=name)
    child = replace(parent, run_id=str(there.info.run_id))
    if there.info.run_name != name:
        child.client.update_run(child.run_id, name=name)
    write_page(child, page)
    if diff:
        child.client.log_text(child.run_id, diff, "prompt_diff.txt")
    child.finish("KILLED" if page.tags["decision"] == "cut_off" else "FINISHED", start_ms)


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
        return format_unified_diff(old, tuning.get_prompts(proposal.candidate_id))
    except UserError:
        return ""
