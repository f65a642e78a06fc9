"""Going on with a tuning run that stopped: its own command line, and the check that it still is the same run.

    python optimize/run.py resume=latest                    # as it was started
    python optimize/run.py resume=latest budget.usd=10      # with more money

The search begins anew, comes to the same, and is answered from the run's own log as far as it had come; phases that
were over are not gone through again.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from eval.cli.paths import OUTPUTS, PROJECT_ROOT, shown
from eval.config.tracking import without_passwords
from eval.runs.folder import find_run
from eval.workflows.resume import changes, put_before, resumed_run
from mas.runtime.errors import UserError
from optimize.search.candidate import PARENT
from optimize.session.run_files import MARKER

RESUME = "resume"
# Options that may change between the sessions of a run, or whole branches of them.
OF_THE_SESSION = (RESUME, "yes", "name", "run", "budget", "tracking", "experiment", "debug")
OF_THE_SESSION_MODEL = ("model.max_connections", "model.rate", "model.api_key_env")


def find_tuning_run(run: str) -> Path:
    """
    Raises:
        UserError: there is none such, or more than one.
    """
    return find_run(run, OUTPUTS / "optimize", MARKER, "python optimize/run.py")


def resumed_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line with what the run was started with put before what is given now.

    Raises:
        UserError: there is no such run.
    """
    here, run = resumed_run(arguments, RESUME)
    if here is None:
        return list(arguments)
    return put_before(arguments, here, json.loads((find_tuning_run(run) / "command.json").read_text("utf-8")))


def of_the_run(overrides: Sequence[str], redact: Callable[[str], str] = str) -> list[str]:
    """What a later session takes over of a command line; what holds a secret is kept nowhere, and given anew."""
    own = (f"{RESUME}=", "yes=", "run.dir=")
    kept = [without_passwords(each) for each in overrides if not each.lstrip("+").startswith(own)]
    return [each for each in kept if redact(each) == each]


def kept_parent(run: str) -> str:
    """The prompts that the run began with, as it has kept them: the set itself may have been edited since."""
    return str(find_tuning_run(run) / "candidates" / PARENT)


def check_unchanged(folder: Path, now: Mapping[str, Any]) -> None:
    """
    Args:
        now: the configuration as the run's folder would keep it, without secrets.

    Raises:
        UserError: the run was started with other options.
    """
    before = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    found = {
        key: change
        for key, change in changes(before, now).items()
        if not any(key == each or key.startswith(f"{each}.") for each in (*OF_THE_SESSION, *OF_THE_SESSION_MODEL))
    }
    if found:
        listed = "; ".join(f"{key}: {change}" for key, change in list(found.items())[:10])
        raise UserError(f"the tuning run was started otherwise ({listed}); go on with its own options, or start anew.")


def going_on(folder: Path, *options: str) -> str:
    """The command that goes on with the run."""
    name = folder.name if folder.parent == OUTPUTS / "optimize" else shown(folder)
    return f"go on with: {command('run.py')} {shlex.join([f'resume={name}', *options])}"


def command(script: str) -> str:
    """One of `optimize/`'s commands, to be pasted into a shell in the current folder."""
    return f"python {shlex.quote(shown(PROJECT_ROOT / 'optimize' / script))}"
