"""Who started a run, where, and from which state of the code: tags that only the run's own process can know.

origin()["mlflow.source.git.commit"]       # "8159276…"
"""

import getpass
import os
import socket
import subprocess

from eval.cli.paths import PROJECT_ROOT


def origin() -> dict[str, str]:
    """As of now; what cannot be found out is left out (no git, no name for the user)."""
    found = {
        "mlflow.user": _user(),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "eval/run.py",
        "mlflow.source.git.commit": _git("rev-parse", "HEAD"),
        "mlflow.source.git.branch": _git("rev-parse", "--abbrev-ref", "HEAD"),
        "harness.host": socket.gethostname(),
        "harness.pid": str(os.getpid()),
    }
    if found["mlflow.source.git.commit"]:
        changed = _git("status", "--porcelain", "--untracked-files=no")
        found["mlflow.source.git.dirty"] = str(changed != "").lower()
    return {name: value for name, value in found.items() if value}


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return None


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(PROJECT_ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
