"""Who started a run, where, and from which state of the code: tags that only the run's own process can know.

origin()["mlflow.source.git.commit"]       # "8159276…"
"""

import getpass
import hashlib
import json
import os
import socket
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_file_digest
from eval.cli.paths import PROJECT_ROOT
from eval.runs.record import PlannedQuestion


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


RESCORED_FROM = "rescored_from"  # in a store's meta: the run whose answers these are


FILES = "file_sha256"  # in a store's meta: JSON, question's id → SHA-256 of its attachment


def task_facts(samples: Iterable[Sample], scorer: Any, revision: str | None) -> dict[str, str]:
    """What a run's store keeps of its task.

    Args:
        examples: all that are to be answered.
        scorer: its configuration, as the run's own has it.
        revision: of the dataset, as its publisher calls it.

    Raises:
        OSError: an attachment cannot be read.
    """
    kept = list(samples)
    files = {each.id: digest for each in kept if (digest := compute_file_digest(each)) is not None}
    questions = questions_sha256(map(PlannedQuestion.of, kept), files)
    assert questions is not None  # every attachment has just been read
    return {
        "task_version": task_version(questions, scorer),
        "data_revision": revision or "",
        FILES: json.dumps(files),
    }


def questions_sha256(questions: Iterable[PlannedQuestion], files: Mapping[str, str]) -> str | None:
    """Over id, text, gold answer and file of each; None: a file's digest is not known (a run of an older version)."""
    lines = []
    for each in questions:
        if each.file is not None and each.id not in files:
            return None
        lines.append(json.dumps([each.id, each.question, each.target, files.get(each.id)]))  # escapes lone surrogates
    return hashlib.sha256("\n".join(sorted(lines)).encode("ascii")).hexdigest()


def task_version(questions: str, scorer: Any) -> str:
    """`questions`: what `questions_sha256` gave."""
    return hashlib.sha256(json.dumps([questions, scorer], sort_keys=True, default=str).encode("ascii")).hexdigest()
