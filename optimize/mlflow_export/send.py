"""A tuning run sent to MLflow from its folder; sending it again changes nothing, or adds what is new.

It goes into an experiment of its own kind, beside the evaluations': its proposals have no test results, and would bury
those that have. A run that an earlier version has begun among the evaluations is completed there.

    sent = send(folder, LocalTracking())
    sent.parent_run_id, len(sent.children)          # "0f3a…", 43

| Status   | Of the parent                                                                       |
|----------|-------------------------------------------------------------------------------------|
| RUNNING  | its process says that it goes on                                                    |
| FINISHED | it has its verdict, whatever that is                                                |
| KILLED   | it stopped before; resumed, it is RUNNING again                                     |
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from eval.config.tracking import Tracking
from eval.mlflow_export.run_page import write_page
from eval.mlflow_export.sending import HOST_TAG, PID_TAG, TrackedRun, close_dead_runs, connect, open_run
from eval.runs.mlflow_state import ExportState
from optimize.mlflow_export.candidates import send_candidates
from optimize.mlflow_export.champion import promote_champion
from optimize.mlflow_export.folder import Redact, TuningSnapshot, read_tuning
from optimize.mlflow_export.openings import count_openings
from optimize.mlflow_export.page import KIND, KIND_TAG, TUNING_TAG, build_tuning_page, write_files

EXPERIMENT_SUFFIX = "-tuning"  # behind `tracking.experiment`


class SentTuning(NamedTuple):
    link: dict[str, str]  # uri, experiment_id, run_id
    parent_run_id: str
    children: dict[str, str]  # candidate → MLflow's run id; all that are there
    proposals: tuple[str, ...]  # candidates that the folder has
    status: str  # of the parent
    experiment: str  # its name

    @property
    def complete(self) -> bool:
        return not set(self.proposals) - self.children.keys()


def send(
    folder: Path, tracking: Tracking, *, redact: Redact = str, process: Mapping[str, str] | None = None
) -> SentTuning:
    """Bring MLflow up to what the folder has now. One process at a time.

    Args:
        folder: of the tuning run.
        tracking: where evaluations go; the tuning run goes beside them (`beside`).
        redact: takes secrets out of a text.
        process: of the run that goes on (`live_process`); None: it has ended, or died.

    Raises:
        UserError: the folder holds no tuning run, or the experiment is in MLflow's bin.
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    tuning = read_tuning(folder, redact)
    parent = _parent(tuning, tracking, process or {})
    if process is not None:
        _show_alive(parent, process)
    openings = _openings(parent, tuning, tracking)
    write_page(parent, build_tuning_page(tuning, openings))
    children = send_candidates(parent, tuning)
    write_files(parent, tuning, openings)
    status = "RUNNING" if process is not None else "FINISHED" if tuning.verdict else "KILLED"
    if process is None:
        promote_champion(parent, tuning)
        _close(parent, tuning, status)
    proposals = tuple(str(each["candidate_id"]) for each in tuning.proposals)
    experiment = str(parent.client.get_experiment(parent.experiment_id).name)
    return SentTuning(parent.link, parent.run_id, children, proposals, status, experiment)


def beside(tracking: Tracking) -> Tracking:
    """Where tuning runs go if evaluations go to `tracking`."""
    return replace(tracking, experiment=f"{tracking.experiment}{EXPERIMENT_SUFFIX}")


def live_process(pid: int) -> dict[str, str]:
    """What tells a living run from a dead one (`eval.mlflow_export.sending`)."""
    import socket

    return {HOST_TAG: socket.gethostname(), PID_TAG: str(pid)}


def state_of(sent: SentTuning, tracking: Tracking, warning: str | None = None) -> ExportState:
    """For `mlflow.json` in the run's folder."""
    counts = {"proposals": {"store": len(sent.proposals), "mlflow": len(set(sent.proposals) & sent.children.keys())}}
    return ExportState(
        uri=tracking.shown_uri,
        experiment=sent.experiment,
        experiment_id=sent.link["experiment_id"],
        run_id=sent.parent_run_id,
        status=sent.status,
        complete=sent.complete and sent.status != "RUNNING" and warning is None,
        counts=counts,
        warning=warning,
    )


def _parent(tuning: TuningSnapshot, tracking: Tracking, process: Mapping[str, str]) -> TrackedRun:
    origin = {
        name: str(text) for name, text in (tuning.facts.get("origin") or {}).items() if name in (HOST_TAG, PID_TAG)
    }
    tags = {TUNING_TAG: tuning.run_id, KIND_TAG: KIND, **origin, **process}
    return open_run(
        *(beside(tracking), tuning.run_id),
        name=tuning.name,
        start_ms=tuning.start_ms,
        tags=tags,
        has_traces=False,  # sent to two experiments, it is in both
        formerly=tracking.experiment,
    )


def show_alive(tracking: Tracking, sent: SentTuning, process: Mapping[str, str]) -> None:
    """Between two sendings, so that nobody takes the run for dead, and who did is put right.

    Raises:
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    _show_alive(_sent_run(tracking, sent), process)


def close_dead(tracking: Tracking, sent: SentTuning) -> list[str]:
    """Other tuning runs whose processes died; evaluations look among their own only.

    Raises:
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    return close_dead_runs(_sent_run(tracking, sent))


def _sent_run(tracking: Tracking, sent: SentTuning) -> TrackedRun:
    own = sent.link
    return TrackedRun(*connect(tracking), own["uri"], own["experiment_id"], sent.parent_run_id)


def _show_alive(parent: TrackedRun, process: Mapping[str, str]) -> None:
    known = parent.client.get_run(parent.run_id).data.tags
    for name, text in process.items():
        if known.get(name) != text:  # resumed by another process
            parent.client.set_tag(parent.run_id, name, text)
    parent.beat(datetime.now(UTC).isoformat(timespec="seconds"))
    parent.begin()


def _openings(parent: TrackedRun, tuning: TuningSnapshot, tracking: Tracking) -> int:
    """By others, before it opened them itself, or ended: what others do later changes nothing on its page."""
    digest = str(tuning.facts.get("sealed_digest") or "")
    until_ms = tuning.end_ms if tuning.opened_ms is None else tuning.opened_ms
    if not digest:
        return 0
    return count_openings(parent.client, _experiments(parent, tracking), digest, until_ms, besides=parent.run_id)


def _experiments(parent: TrackedRun, tracking: Tracking) -> Sequence[str]:
    """That tuning runs are in: those of an earlier version are among the evaluations."""
    names = (tracking.experiment, beside(tracking).experiment)
    found = (parent.client.get_experiment_by_name(name) for name in names)
    return [str(each.experiment_id) for each in found if each]


def _close(parent: TrackedRun, tuning: TuningSnapshot, status: str) -> None:
    if status == "KILLED" and parent.status() == "KILLED":  # closed by whoever found it dead; that moment stays
        return
    parent.finish(status, tuning.end_ms)
