"""Start and resume of a tuning run: its command line, the check that it is unchanged, and its first facts.

    python optimize/run.py resume=latest                    # as it was started
    python optimize/run.py resume=latest budget.usd=10      # with more money

Finished phases are skipped. An interrupted search is repeated: it is reproducible, and the run's call log replays its
replies up to where it stopped.
"""

import json
import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from eval.cli.paths import OUTPUTS, PROJECT_ROOT, format_path
from eval.config.measured import find_changes
from eval.config.tracking import remove_passwords
from eval.workflows.resume import find_resume_argument, insert_arguments
from mas.runtime.errors import UserError
from optimize.questions.splits import Splits
from optimize.search.candidate import PARENT, Candidate
from optimize.session.config import TuningRequest
from optimize.session.run_files import RunFiles, find_tuning_run

RESUME = "resume"
# Options, or whole branches of them, that may change between the sessions of a run.
OF_THE_SESSION = (RESUME, "yes", "name", "run", "budget", "tracking", "experiment", "debug")
OF_THE_SESSION_MODEL = ("model.max_connections", "model.rate", "model.api_key_env")


def restore_arguments(arguments: Sequence[str]) -> list[str]:
    """Insert the overrides that the run was started with before those given now.

    Raises:
        UserError: there is no such run.
    """
    here, run = find_resume_argument(arguments, RESUME)
    if here is None:
        return list(arguments)
    return insert_arguments(arguments, here, json.loads((find_tuning_run(run) / "command.json").read_text("utf-8")))


def filter_overrides(overrides: Sequence[str], redact: Callable[[str], str] = str) -> list[str]:
    """Return the overrides that a later session repeats; those that contain a secret are not stored."""
    own = (f"{RESUME}=", "yes=", "run.dir=")
    kept = [remove_passwords(each) for each in overrides if not each.lstrip("+").startswith(own)]
    return [each for each in kept if redact(each) == each]


def find_parent_set(run: str) -> str:
    """Return the folder of the prompts that the run started from: a copy, since the set may have been edited."""
    return str(find_tuning_run(run) / "candidates" / PARENT)


def check_unchanged(folder: Path, now: Mapping[str, object]) -> None:
    """Check that the configuration, without secrets, is the one that the run was started with.

    Raises:
        UserError: an option that belongs to the run differs.
    """
    before = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    found = {
        key: change
        for key, change in find_changes(before, now).items()
        if not any(key == each or key.startswith(f"{each}.") for each in (*OF_THE_SESSION, *OF_THE_SESSION_MODEL))
    }
    if found:
        listed = "; ".join(f"{key}: {change}" for key, change in list(found.items())[:10])
        raise UserError(f"the tuning run has other options ({listed}); resume it with its own, or start a new run.")


def describe_resume(folder: Path, *options: str) -> str:
    """Return a sentence with the command that resumes the run."""
    name = folder.name if folder.parent == OUTPUTS / "optimize" else format_path(folder)
    return f"go on with: {format_command('run.py')} {shlex.join([f'resume={name}', *options])}"


def format_command(script: str) -> str:
    """Return a command of `optimize/` as it is typed in the current folder."""
    return f"python {shlex.quote(format_path(PROJECT_ROOT / 'optimize' / script))}"


def begin_session(request: TuningRequest, splits: Splits, files: RunFiles, origin: Mapping[str, str]) -> float:
    """Check a resumed run, or write the files of a new one, and update its facts.

    Returns:
        Wall time of earlier sessions, in seconds.

    Raises:
        UserError: the run was started with other options, or its questions have changed.
    """
    before = files.read("tuning") or {}
    seconds_before = _sum_seconds(before, files.folder)
    if before:
        check_unchanged(files.folder, yaml.safe_load(request.configuration))
        splits.check_same(files.read("splits"))
        files.remove("verdict")  # it says that a budget was used up, which may be larger now
    else:
        files.write_text("config.yaml", request.configuration)
        files.write("splits", splits.to_dict())
        files.save_candidate(Candidate(PARENT, request.prompts))
    files.write("command", filter_overrides(request.command, request.config.redact))
    files.update(**_facts(request, splits, before, seconds_before), origin=origin)
    return seconds_before


def _facts(
    request: TuningRequest, splits: Splits, before: Mapping[str, Any], seconds_before: float
) -> dict[str, object]:
    """Return the facts for tuning.json, some of which stay as they were `before`."""
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


def _sum_seconds(before: Mapping[str, Any], folder: Path) -> float:
    """Return the wall time of earlier sessions; a killed one is taken to have ended with its last reply."""
    if not before:
        return 0.0
    if before["ended_at"]:
        return float(before["spend"]["seconds"])
    written = max((each.stat().st_mtime for each in folder.glob("*.db*")), default=0.0)
    began = datetime.fromisoformat(before["session_started_at"]).timestamp()
    return float(before["session_seconds_before"]) + max(0.0, written - began)
