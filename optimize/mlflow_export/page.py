"""The pages of a tuning run and of its proposals in MLflow: params, tags, metrics, description and files.

A proposal is a child of the run, found by its `candidate_id`, with the diff to its parent's prompts. The folder has no
times of proposals: in MLflow they begin in their order, a millisecond apart. Lists cut a name to a dozen characters, so
it begins with what differs.

    write_page(parent, build_tuning_page(tuning))
    send_candidates(parent, tuning, sent={})
    build_files(tuning)["report.html"]       # the page of the run
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from eval.mlflow_export.run_page import MAX_PARAM_CHARS, MAX_TAG_CHARS, RunPage, flatten_params, write_page
from eval.mlflow_export.tracked_run import PARENT_TAG, TrackedRun, search_runs
from eval.mlflow_export.values import clean_text, truncate
from eval.runs.folder import REPORT, TUNING_FILE, VERDICT
from eval.runs.run_info import RunInfo, dump_config
from eval.scorers.score import ACCURACY
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from optimize.publishing.prompt_diff import format_difference
from optimize.reports.outcome import describe_outcome
from optimize.search.optimizer import PARENT, Proposal
from optimize.session.tuning_store import TuningSnapshot

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


def _build_name(tuning: TuningSnapshot, proposal: Proposal) -> str:
    """Return a name such as `c004 val 63.3%, accepted: planner`; `val` says that the score is not a test result."""
    agents = f": {' '.join(proposal.agents)}" if proposal.agents else ""
    return tuning.mark_simulated(f"{proposal.candidate_id} {_describe_fate(tuning, proposal)}{agents}")[:250]


def _describe_fate(tuning: TuningSnapshot, proposal: Proposal) -> str:
    scored = "" if proposal.val_score is None else f"val {100 * proposal.val_score:.1f}%, "
    return scored + ("winner" if proposal.candidate_id == tuning.winner else proposal.decision.replace("_", " "))


def _build_page(parent: TrackedRun, tuning: TuningSnapshot, proposal: Proposal) -> RunPage:
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


def _build_diff(tuning: TuningSnapshot, proposal: Proposal) -> str:
    """Return the diff of its prompts to the first parent's; empty if the run has not both, or they were changed."""
    try:
        old = tuning.get_prompts(next(iter(proposal.parent_ids), PARENT))
        return format_difference(old, tuning.get_prompts(proposal.candidate_id))
    except UserError:
        return ""


KIND_TAG, KIND = "harness.kind", "tuning"
NOTE_TAG = "mlflow.note.content"  # the description on the run's page
_MAX_NOTE_CHARS = 5000  # MLflow itself takes 8000
_FILES = (VERDICT, TUNING_FILE, REPORT)
_MAX_FILE_CHARS = 20_000_000


def build_tuning_page(tuning: TuningSnapshot) -> RunPage:
    info, task = tuning.info, tuning.task
    own = {"name": task.name, "system": info.system, "model": info.model, "reflection_model": task.reflection_model}
    own |= {"optimizer": task.optimizer, "seed": str(task.seed)}
    params = {**dict(flatten_params(RunInfo(config=info.config))), **{name: text for name, text in own.items() if text}}
    return RunPage(
        params={name: truncate(text, MAX_PARAM_CHARS) for name, text in params.items()},
        tags={name: truncate(text, MAX_TAG_CHARS) for name, text in _build_tags(tuning).items() if text},
        metrics=_build_metrics(tuning),
    )


def build_files(tuning: TuningSnapshot) -> dict[str, str]:
    """Return the run's files and its configuration, by name."""
    files = {
        name: (tuning.folder / name).read_text("utf-8", errors="replace")
        for name in _FILES
        if (tuning.folder / name).is_file()
    }
    if tuning.info.config:
        files["config.yaml"] = dump_config(tuning.info.config)
    # The page loads nothing, and its scripts would not run if they were changed.
    return {name: text if name == REPORT else clean_text(text, _MAX_FILE_CHARS) for name, text in files.items()}


def _build_tags(tuning: TuningSnapshot) -> dict[str, str]:
    info, task, verdict = tuning.info, tuning.task, tuning.verdict
    tags = {
        **_build_origin_tags(info.origin),
        KIND_TAG: KIND,
        "phase": tuning.state.phase,
        "split_digest": task.split_digest,
        "sealed_digest": task.sealed_digest,
        "sealed_opened": json.dumps(tuning.sealed_opened),
        "system": info.system,
        "model": info.model,
        "simulated": json.dumps(tuning.info.simulated),
        "run_folder": tuning.folder.name,
        NOTE_TAG: truncate(_describe_tuning(tuning), _MAX_NOTE_CHARS),
    }
    if verdict:
        tags |= {"published": json.dumps(tuning.published), "finish_reason": verdict["finish_reason"]}
        tags["winner"] = tuning.winner or ""
    return tags


def _build_origin_tags(origin: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of user, machine, process and state of the code."""
    return {
        name if name.startswith(("mlflow.", "harness.")) else f"origin.{name}": text for name, text in origin.items()
    }


def _build_metrics(tuning: TuningSnapshot) -> dict[str, float]:
    verdict, fresh = tuning.verdict, tuning.shortlist.get(PARENT) or {}
    decisions = Counter(each.decision for each in tuning.proposals)
    scores = [each.val_score for each in tuning.proposals if each.val_score is not None]
    numbers = {name: verdict.get(name) for name in ("gain", "gain_shrunken", "null_gain", "p", "sealed", "cost")}
    numbers |= name_interval("gain_ci95", verdict.get("gain_ci95"))
    metric = str(verdict.get("metric", ACCURACY)).replace(" ", "_")
    for side in ("baseline", "winner"):
        result = verdict.get(side) or {}
        numbers |= {f"{side}_{metric}": result.get("score"), f"{side}_accuracy": result.get("accuracy")}
        numbers |= name_interval(f"{side}_{metric}_ci95", result.get("score_ci95"))
        numbers |= name_interval(f"{side}_accuracy_ci95", result.get("ci95"))
    numbers |= {f"baseline_{name}": fresh.get(name) for name in ("val_score", "fresh_score")}
    numbers |= {"spend": verdict.get("spend") or tuning.state.spend, "best_val_score": max(scores, default=None)}
    numbers["sealed_opened_before"] = tuning.read_part("sealed").get("n_earlier")
    numbers["proposals"] = {name: decisions[name] for name in ("accepted", "rejected", "cut_off")}
    return flatten_metrics(numbers)


def _describe_tuning(tuning: TuningSnapshot) -> str:
    """Return the outcome in Markdown."""
    outcome, opened = describe_outcome(tuning), ""
    if tuning.sealed_opened:
        opened = (
            f"`python optimize/export.py {tuning.place} --answers` makes the answers to the sealed questions two "
            "ordinary runs, which `python eval/sync.py` brings into MLflow."
        )
    head = f"Tuning of {tuning.info.system} with {tuning.task.optimizer}: {outcome.label}. {outcome.sentence}"
    notes = "\n".join(f"- {each}" for each in outcome.notes)
    return "\n\n".join(filter(None, (build_notice(tuning), head, notes, opened)))


def build_notice(tuning: TuningSnapshot) -> str:
    """Return the notice of a simulation; empty for a real model."""
    return f"**{SIMULATED_NOTICE}**" if tuning.info.simulated else ""


def name_interval(name: str, bounds: Sequence[float] | None) -> dict[str, object]:
    return dict(zip((f"{name}_low", f"{name}_high"), bounds or (), strict=False))


def flatten_metrics(tree: Mapping[str, object]) -> dict[str, float]:
    """Return the finite numbers of nested objects under dotted names; MLflow has no null.

    flatten_metrics({"spend": {"lm_calls": 12, "cost_usd": None}})     # {"spend.lm_calls": 12.0}
    """
    return {
        name: float(value)
        for name, value in _list_leaves(tree)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _list_leaves(tree: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", leaf) for key, leaf in _list_leaves(value))
        else:
            yield name, value
