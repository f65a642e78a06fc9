"""The beginning of a tuning run's session, its first or one that goes on: what the run's folder is told, and asked.

seconds_before = begin(request, splits, RunFiles(folder), origin())          # 0.0 in the first
"""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from optimize.questions.splits import Splits
from optimize.search.candidate import PARENT, Candidate
from optimize.session.request import Request
from optimize.session.resuming import check_unchanged, of_the_run
from optimize.session.run_files import RunFiles


def begin(request: Request, splits: Splits, files: RunFiles, origin: Mapping[str, str]) -> float:
    """
    Args:
        origin: who runs what, as a run in MLflow says it.

    Returns:
        Wall time of the sessions before, in seconds.

    Raises:
        UserError: the run was started with other options, or its questions have changed.
    """
    before = files.read("tuning") or {}
    seconds_before = _seconds_of(before, files.folder)
    if before:
        check_unchanged(files.folder, yaml.safe_load(request.configuration))
        splits.check_same(files.read("splits"))
        files.remove("verdict")  # that a budget was used up: it may be a larger one now
    else:
        files.write_text("config.yaml", request.configuration)
        files.write("splits", splits.to_dict())
        files.keep(Candidate(PARENT, request.prompts))
    files.write("command", of_the_run(request.command, request.config.redact))
    files.update(**_facts(request, splits, before, seconds_before), origin=origin)
    return seconds_before


def _facts(request: Request, splits: Splits, before: Mapping[str, Any], seconds_before: float) -> dict[str, Any]:
    """What `tuning.json` says from now on; `before`: what it said."""
    config, now = request.config, datetime.now(UTC).isoformat()
    return {
        "run_id": before.get("run_id") or uuid.uuid4().hex[:12],
        "name": config.name,
        "system": config.base.system.name,
        "model": config.base.model_name,
        "reflection_model": config.reflection_model or config.base.model_name,
        "optimizer": config.optimizer.name,
        "simulated": config.base.simulated,
        "seed": config.seed,
        "started_at": before.get("started_at") or now,
        "session_started_at": now,
        "session_seconds_before": seconds_before,
        "ended_at": None,
        "phase": before.get("phase", "preflight"),
        "split_digest": splits.digest,
        "sealed_digest": splits.sealed_digest,
        "parent_set": before.get("parent_set") or request.prompts.name,
    }


def _seconds_of(before: Mapping[str, Any], folder: Path) -> float:
    """Wall time of the sessions before; one that was killed took until its last reply, as far as anybody knows."""
    if not before:
        return 0.0
    if before["ended_at"]:
        return float(before["spend"]["seconds"])
    written = max((each.stat().st_mtime for each in folder.glob("*.db*")), default=0.0)
    began = datetime.fromisoformat(before["session_started_at"]).timestamp()
    return float(before["session_seconds_before"]) + max(0.0, written - began)
