"""What a tuning run sends to MLflow of its store; sending it again changes nothing, or adds what is new.

Tuning runs have an experiment of their own: their proposals have no test results, and would bury the evaluations.
A proposal is a child of the run, found by its `candidate_id`. The store has no times of proposals: in MLflow they begin
in their order, a millisecond apart. Lists cut a name to a dozen characters, so it begins with what differs.

A run with a verdict, whatever that is, is FINISHED there; one that stopped before is KILLED, and RUNNING once resumed.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from eval.config.tracking import Tracking
from eval.mlflow_export.exporter import Counts, Export
from eval.mlflow_export.tracked_run import (
    MAX_RESULTS,
    NOTE_TAG,
    PARENT_TAG,
    TrackedRun,
    flatten_numbers,
    flatten_params,
    open_run,
    read_start_ms,
)
from eval.runs.folder import REPORT, TUNING_FILE, VERDICT
from eval.runs.logs import Log
from eval.scorers.score import ACCURACY
from mas.simulation import SIMULATED_NOTICE
from optimize.reports.tuning_page import describe_outcome
from optimize.search.optimizer import Proposal
from optimize.session.tuning_store import TuningSnapshot, take_snapshot

if TYPE_CHECKING:
    from mlflow.entities import Run

EXPERIMENT_SUFFIX = "-tuning"  # after `tracking.experiment`
CANDIDATE_TAG, KIND_TAG, KIND = "candidate_id", "harness.kind", "tuning"


class TuningExport(Export):
    """The run with its proposals as children."""

    def __init__(self, folder: Path, settings: Tracking, log: Log) -> None:
        super().__init__(folder, replace(settings, experiment=settings.experiment + EXPERIMENT_SUFFIX), log)
        self._n_sent = 0  # of the proposals

    def open_run(self) -> TrackedRun:
        tuning = take_snapshot(self.store)
        start_ms = read_start_ms(tuning.info)
        return open_run(self.settings, tuning.info.run_id, name=tuning.name, start_ms=start_ms, tags={KIND_TAG: KIND})

    def send_new(self) -> int:
        """Send the proposals since the last call; what changes of one later, as its fresh score, is sent at the end."""
        tuning = take_snapshot(self.store)
        new = tuning.proposals[self._n_sent :]
        if new:
            self._send(tuning, new)
        self._n_sent += len(new)
        return len(new)

    def send_all_again(self) -> None:
        self._n_sent = 0

    def _send(self, tuning: TuningSnapshot, proposals: Sequence[Proposal]) -> None:
        """Send proposals, and the page of the run as it is now."""
        there, client = find_children(self.run), self.run.client
        for proposal in proposals:
            candidate_id, name = proposal.candidate_id, _name_candidate(tuning, proposal)
            start_ms = read_start_ms(tuning.info) + int(candidate_id.lstrip("c"))
            tags = {PARENT_TAG: self.run.run_id, CANDIDATE_TAG: candidate_id}
            child = there.get(candidate_id) or client.create_run(self.run.experiment_id, start_ms, tags, name)
            run_id = str(child.info.run_id)
            if child.info.run_name != name:
                client.update_run(run_id, name=name)
            _write_candidate(replace(self.run, run_id=run_id), tuning, proposal)
            client.set_terminated(run_id, "FINISHED", start_ms)
            self.sent.update(proposals=candidate_id not in there)
        write_tuning_page(self.run, tuning)

    def end(self) -> None:
        tuning = take_snapshot(self.store)
        self._send(tuning, tuning.proposals)
        ended_at = tuning.state.last_session.ended_at
        self.end_run(bool(tuning.verdict), ended_at, VERDICT, TUNING_FILE, REPORT, "config.yaml")

    def count(self) -> Counts:
        wanted = {each.candidate_id for each in take_snapshot(self.store).proposals}
        return {"proposals": {"store": len(wanted), "mlflow": len(wanted & find_children(self.run).keys())}}


def find_children(parent: TrackedRun) -> "dict[str, Run]":
    """Map each candidate to its run in MLflow, the oldest of several."""
    condition = f"tags.`{PARENT_TAG}` = '{parent.run_id}'"
    found = parent.client.search_runs(
        [parent.experiment_id], condition, max_results=MAX_RESULTS, order_by=["attributes.start_time DESC"]
    )
    return {each.data.tags[CANDIDATE_TAG]: each for each in found if CANDIDATE_TAG in each.data.tags}


def _name_candidate(tuning: TuningSnapshot, proposal: Proposal) -> str:
    """Return a name such as `c004 val 63.3%, accepted: planner`; `val` says that the score is not a test result."""
    agents = f": {' '.join(proposal.agents)}" if proposal.agents else ""
    scored = "" if proposal.val_score is None else f"val {100 * proposal.val_score:.1f}%, "
    fate = "winner" if proposal.candidate_id == tuning.winner else proposal.decision.replace("_", " ")
    simulated = " (simulated)" if tuning.info.simulated else ""
    return f"{proposal.candidate_id} {scored}{fate}{agents}{simulated}"[:250]


def _write_candidate(run: TrackedRun, tuning: TuningSnapshot, proposal: Proposal) -> None:
    tags = {
        "parent_ids": ", ".join(proposal.parent_ids),
        "agents": ", ".join(proposal.agents),
        **{name: getattr(proposal, name) for name in ("decision", "reason", "origin")},
        "winner": "true" if proposal.candidate_id == tuning.winner else "",
        KIND_TAG: "candidate",
        NOTE_TAG: proposal.reason,
    }
    fresh = tuning.shortlist.get(proposal.candidate_id) or {}
    numbers = {"val_score": proposal.val_score, **{name: fresh.get(name) for name in ("fresh_score", "fresh_ci95")}}
    run.write_page({}, tags, dict(flatten_numbers(numbers, ".")))


def write_tuning_page(run: TrackedRun, tuning: TuningSnapshot) -> None:
    info, task, verdict = tuning.info, tuning.task, tuning.verdict
    own = {"name": task.name, "system": info.system, "model": info.model, "optimizer": task.optimizer}
    own |= {"reflection_model": task.reflection_model, "seed": str(task.seed)}
    tags = {
        **info.origin,
        KIND_TAG: KIND,
        "phase": tuning.state.phase,
        "split_digest": task.split_digest,
        "sealed_digest": task.sealed_digest,
        "sealed_opened": json.dumps(tuning.sealed_opened),
        "simulated": json.dumps(info.simulated),
        "run_folder": tuning.folder.name,
        NOTE_TAG: _describe_tuning(tuning),
    }
    if verdict:
        tags |= {"published": json.dumps(tuning.published), "finish_reason": verdict["finish_reason"]}
        tags["winner"] = tuning.winner or ""
    run.write_page({**flatten_params(info), **own}, tags, dict(flatten_numbers(_select_numbers(tuning), ".")))


def _select_numbers(tuning: TuningSnapshot) -> dict[str, object]:
    verdict, decisions = tuning.verdict, Counter(each.decision for each in tuning.proposals)
    numbers = {name: verdict.get(name) for name in ("gain", "gain_ci95", "null_gain", "p", "sealed")}
    metric = str(verdict.get("metric", ACCURACY)).replace(" ", "_")
    for side in ("baseline", "winner"):
        result = verdict.get(side) or {}
        numbers |= {f"{side}_{metric}": result.get("score"), f"{side}_accuracy": result.get("accuracy")}
        numbers |= {f"{side}_{metric}_ci95": result.get("score_ci95"), f"{side}_accuracy_ci95": result.get("ci95")}
    proposals = {name: decisions[name] for name in ("accepted", "rejected", "cut_off")}
    return {**numbers, "spend": verdict.get("spend") or tuning.state.spend, "proposals": proposals}


def _describe_tuning(tuning: TuningSnapshot) -> str:
    """Return the outcome in Markdown."""
    outcome, notice, opened = describe_outcome(tuning), "", ""
    if tuning.info.simulated:
        notice = f"**{SIMULATED_NOTICE}**"
    if tuning.sealed_opened:
        opened = f"Question by question, after its verdict: `python eval/compare.py {tuning.folder.name}:parent …:ID`."
    head = f"Tuning of {tuning.info.system} with {tuning.task.optimizer}: {outcome.label}. {outcome.sentence}"
    return "\n\n".join(filter(None, (notice, head, "\n".join(f"- {each}" for each in outcome.notes), opened)))
