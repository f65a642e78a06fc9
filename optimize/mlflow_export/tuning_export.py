"""Export of a tuning run from its folder to MLflow; sending it again changes nothing, or adds what is new.

    python -m optimize.mlflow_export.tuning_export FOLDER      started by ExporterLauncher

Tuning runs have an experiment of their own: their proposals have no test results, and would bury the evaluations. A
proposal is a child of the run, found by its `candidate_id`, with the diff to its parent's prompts. The folder has no
times of proposals: in MLflow they begin in their order, a millisecond apart. Lists cut a name to a dozen characters, so
it begins with what differs.

A run with a verdict, whatever that is, is FINISHED there; one that stopped before is KILLED, and RUNNING once resumed.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from eval.config.tracking import Tracking
from eval.mlflow_export.exporter_launcher import ExportKind
from eval.mlflow_export.exporter_process import Counts, Export, Redact, run_exporter
from eval.mlflow_export.prompt_registry import name_owner, register_prompts
from eval.mlflow_export.run_page import (
    MAX_PARAM_CHARS,
    MAX_TAG_CHARS,
    RunPage,
    flatten_params,
    read_start_ms,
    write_page,
)
from eval.mlflow_export.tracked_run import PARENT_TAG, TrackedRun, open_run, search_runs, to_ms
from eval.mlflow_export.values import clean_text, truncate
from eval.runs.folder import FACTS, REPORT, TUNING_FILE, VERDICT
from eval.runs.run_info import RunInfo, dump_config
from eval.scorers.score import ACCURACY
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from optimize.publishing.prompt_diff import format_difference
from optimize.reports.outcome import describe_outcome
from optimize.search.optimizer import PARENT, Proposal
from optimize.session.tuning_store import TuningSnapshot, read_tuning

if TYPE_CHECKING:
    from mlflow.entities import Run

TUNING = ExportKind("optimize.mlflow_export.tuning_export", "optimize/sync.py", "optimize")
EXPERIMENT_SUFFIX = "-tuning"  # after `tracking.experiment`
CANDIDATE_TAG, KIND_TAG, KIND = "candidate_id", "harness.kind", "tuning"
NOTE_TAG = "mlflow.note.content"  # the description on the run's page
_MAX_NOTE_CHARS = 5000  # MLflow itself takes 8000
_MAX_FILE_CHARS = 20_000_000


class TuningExport(Export):
    """The run with its proposals as children. One process at a time."""

    def __init__(self, folder: Path, settings: Tracking, redact: Redact) -> None:
        super().__init__(folder, replace(settings, experiment=settings.experiment + EXPERIMENT_SUFFIX), redact)
        self._candidates: dict[str, object] = {}  # as they were sent
        self._file_states: object = None  # of the folder, when it was sent last
        self._files: dict[str, str] = {}  # as they were sent

    def open_run(self) -> TrackedRun:
        tuning = read_tuning(self.folder)
        return open_run(
            *(self.settings, tuning.info.run_id),
            name=tuning.name,
            start_ms=read_start_ms(tuning.info),
            tags={KIND_TAG: KIND},
            has_traces=False,  # sent to two experiments, it is in both
        )

    def send_new(self) -> int:
        """Send everything if a file has been written since; a file that is being written comes with the next call."""
        places = [each for name in (FACTS, REPORT) if (each := self.folder / name).exists()]
        states = [(each.stat().st_mtime_ns, each.stat().st_size) for each in places]
        if states != self._file_states:
            self._send()
            self._file_states = states
        return 0

    def _send(self) -> TuningSnapshot:
        tuning = read_tuning(self.folder)
        write_page(self.run, build_tuning_page(tuning))
        self._send_candidates(tuning)
        for name, text in _build_files(tuning).items():
            if self._files.get(name) != text:
                self.run.client.log_text(self.run.run_id, self.redact(text), name)
                self._files[name] = text
        return tuning

    def _send_candidates(self, tuning: TuningSnapshot) -> None:
        """Bring every proposal up to what the folder has."""
        there = find_children(self.run)
        for number, proposal in enumerate(tuning.proposals, start=1):
            candidate_id, page = proposal.candidate_id, _build_candidate_page(self.run, tuning, proposal)
            name, diff = _name_candidate(tuning, proposal), _build_diff(tuning, proposal)
            if self._candidates.get(candidate_id) == (name, page, diff):
                continue
            start_ms = read_start_ms(tuning.info) + number
            child = there.get(candidate_id) or self.run.client.create_run(
                self.run.experiment_id, start_time=start_ms, tags=page.tags, run_name=name
            )
            sent = replace(self.run, run_id=str(child.info.run_id))
            if child.info.run_name != name:
                sent.client.update_run(sent.run_id, name=name)
            write_page(sent, page)
            if diff:
                sent.client.log_text(sent.run_id, diff, "prompt_diff.txt")
            sent.finish("KILLED" if proposal.decision == "cut_off" else "FINISHED", start_ms)
            self._candidates[candidate_id] = (name, page, diff)

    def end(self) -> None:
        tuning = self._send()
        if tuning.published and tuning.winner and tuning.is_own:  # not of a run from elsewhere
            with suppress(UserError):  # somebody has changed the prompts
                prompts = replace(tuning.get_prompts(tuning.winner), name=tuning.task.name)
                register_prompts(self.run, name_owner(prompts, tuning.info.part("system")), is_now=True)
        status = "FINISHED" if tuning.verdict else "KILLED"
        ended_at = tuning.state.last_session.ended_at
        written_ms = round((self.folder / FACTS).stat().st_mtime * 1000)  # of a run that was killed
        self.run.finish(status, to_ms(ended_at) if ended_at else written_ms)
        self.state = replace(self.state, status=status)

    def count(self) -> Counts:
        wanted = {each.candidate_id for each in read_tuning(self.folder).proposals}
        return {"proposals": {"store": len(wanted), "mlflow": len(wanted & find_children(self.run).keys())}}

    def describe_sent(self) -> str:
        counts = self.state.counts.get("proposals", {"store": 0, "mlflow": 0})
        return f"{self.state.status}, {counts['mlflow']} of {counts['store']} proposals in {self.settings.address()}"


# A proposal


def find_children(parent: TrackedRun) -> "dict[str, Run]":
    """Map each candidate to its run in MLflow, the oldest of several."""
    found: dict[str, Run] = {}
    condition = f"tags.`{PARENT_TAG}` = '{parent.run_id}'"
    for each in search_runs(parent.client, [parent.experiment_id], condition, ["attributes.start_time ASC"]):
        if name := each.data.tags.get(CANDIDATE_TAG):
            found.setdefault(name, each)
    return found


def _name_candidate(tuning: TuningSnapshot, proposal: Proposal) -> str:
    """Return a name such as `c004 val 63.3%, accepted: planner`; `val` says that the score is not a test result."""
    agents = f": {' '.join(proposal.agents)}" if proposal.agents else ""
    scored = "" if proposal.val_score is None else f"val {100 * proposal.val_score:.1f}%, "
    fate = "winner" if proposal.candidate_id == tuning.winner else proposal.decision.replace("_", " ")
    return tuning.mark_simulated(f"{proposal.candidate_id} {scored}{fate}{agents}")[:250]


def _build_candidate_page(parent: TrackedRun, tuning: TuningSnapshot, proposal: Proposal) -> RunPage:
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
        KIND_TAG: "candidate",
        NOTE_TAG: "\n\n".join(filter(None, [_build_notice(tuning), proposal.reason])),
    }
    scores = ("val_score", "minibatch_before", "minibatch_after", "spend")
    numbers = {name: getattr(proposal, name) for name in scores} | {"fresh_score": fresh.get("fresh_score")}
    metrics = dict(_list_metrics(numbers | _name_interval("fresh_ci95", fresh.get("fresh_ci95"))))
    return RunPage(tags=_cut(tags, MAX_TAG_CHARS), metrics=metrics)


def _build_diff(tuning: TuningSnapshot, proposal: Proposal) -> str:
    """Return the diff of its prompts to the first parent's; empty if the run has not both, or they were changed."""
    try:
        old = tuning.get_prompts(next(iter(proposal.parent_ids), PARENT))
        return format_difference(old, tuning.get_prompts(proposal.candidate_id))
    except UserError:
        return ""


# The run


def build_tuning_page(tuning: TuningSnapshot) -> RunPage:
    info, task, verdict = tuning.info, tuning.task, tuning.verdict
    own = {"name": task.name, "system": info.system, "model": info.model, "reflection_model": task.reflection_model}
    own |= {"optimizer": task.optimizer, "seed": str(task.seed)}
    params = {**dict(flatten_params(RunInfo(config=info.config))), **{name: text for name, text in own.items() if text}}
    tags = {  # user, machine, process and state of the code first
        name if name.startswith(("mlflow.", "harness.")) else f"origin.{name}": text
        for name, text in info.origin.items()
    }
    tags |= {
        KIND_TAG: KIND,
        "phase": tuning.state.phase,
        "split_digest": task.split_digest,
        "sealed_digest": task.sealed_digest,
        "sealed_opened": json.dumps(tuning.sealed_opened),
        "system": info.system,
        "model": info.model,
        "simulated": json.dumps(info.simulated),
        "run_folder": tuning.folder.name,
        NOTE_TAG: truncate(_describe_tuning(tuning), _MAX_NOTE_CHARS),
    }
    if verdict:
        tags |= {"published": json.dumps(tuning.published), "finish_reason": verdict["finish_reason"]}
        tags["winner"] = tuning.winner or ""
    return RunPage(_cut(params, MAX_PARAM_CHARS), _cut(tags, MAX_TAG_CHARS), _build_metrics(tuning))


def _build_metrics(tuning: TuningSnapshot) -> dict[str, float]:
    verdict, fresh = tuning.verdict, tuning.shortlist.get(PARENT) or {}
    decisions = Counter(each.decision for each in tuning.proposals)
    scores = [each.val_score for each in tuning.proposals if each.val_score is not None]
    numbers = {name: verdict.get(name) for name in ("gain", "gain_shrunken", "null_gain", "p", "sealed", "cost")}
    numbers |= _name_interval("gain_ci95", verdict.get("gain_ci95"))
    metric = str(verdict.get("metric", ACCURACY)).replace(" ", "_")
    for side in ("baseline", "winner"):
        result = verdict.get(side) or {}
        numbers |= {f"{side}_{metric}": result.get("score"), f"{side}_accuracy": result.get("accuracy")}
        numbers |= _name_interval(f"{side}_{metric}_ci95", result.get("score_ci95"))
        numbers |= _name_interval(f"{side}_accuracy_ci95", result.get("ci95"))
    numbers |= {f"baseline_{name}": fresh.get(name) for name in ("val_score", "fresh_score")}
    numbers |= {"spend": verdict.get("spend") or tuning.state.spend, "best_val_score": max(scores, default=None)}
    numbers["sealed_opened_before"] = tuning.read_part("sealed").get("n_earlier")
    numbers["proposals"] = {name: decisions[name] for name in ("accepted", "rejected", "cut_off")}
    return dict(_list_metrics(numbers))


def _describe_tuning(tuning: TuningSnapshot) -> str:
    """Return the outcome in Markdown."""
    outcome, opened = describe_outcome(tuning), ""
    if tuning.sealed_opened:
        opened = f"Question by question, after its verdict: `python eval/compare.py {tuning.place}:parent …:ID`."
    head = f"Tuning of {tuning.info.system} with {tuning.task.optimizer}: {outcome.label}. {outcome.sentence}"
    notes = "\n".join(f"- {each}" for each in outcome.notes)
    return "\n\n".join(filter(None, (_build_notice(tuning), head, notes, opened)))


def _build_files(tuning: TuningSnapshot) -> dict[str, str]:
    """Return the run's files and its configuration, by name."""
    places = {name: tuning.folder / name for name in (VERDICT, TUNING_FILE, REPORT)}
    files = {name: path.read_text("utf-8", errors="replace") for name, path in places.items() if path.is_file()}
    if tuning.info.config:
        files["config.yaml"] = dump_config(tuning.info.config)
    # The page loads nothing, and its scripts would not run if they were changed.
    return {name: text if name == REPORT else clean_text(text, _MAX_FILE_CHARS) for name, text in files.items()}


def _build_notice(tuning: TuningSnapshot) -> str:
    """Return the notice of a simulation; empty for a real model."""
    return f"**{SIMULATED_NOTICE}**" if tuning.info.simulated else ""


def _cut(texts: Mapping[str, str], max_chars: int) -> dict[str, str]:
    return {name: truncate(text, max_chars) for name, text in texts.items() if text}


def _name_interval(name: str, bounds: Sequence[float] | None) -> dict[str, object]:
    return dict(zip((f"{name}_low", f"{name}_high"), bounds or (), strict=False))


def _list_metrics(tree: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Yield the finite numbers of nested objects under dotted names; MLflow has no null."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", number) for key, number in _list_metrics(value))
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name, float(value)


if __name__ == "__main__":
    run_exporter(TuningExport)
