"""A copy of the checkout in which a page's commands are run and its files are written."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eval.cli.paths import PROJECT_ROOT


@dataclass(frozen=True)
class Checkout:
    """One copy; its modules are imported before those of the original."""

    root: Path
    environment: Mapping[str, str]

    def run(self, command: str, *codes: int) -> str:
        """Run a shell command at the root and return its output.

        Args:
            command: as a page shows it; `python` is the one that runs the tests.
            codes: exit codes that are accepted; 0 if none is given.
        """
        ended = subprocess.run(
            ["bash", "-ec", command], cwd=self.root, env=dict(self.environment), capture_output=True, text=True
        )
        assert ended.returncode in (codes or (0,)), f"{command}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
        return ended.stdout

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def copy_checkout(root: Path, environment: Mapping[str, str]) -> Checkout:
    """Copy the files that commands need. `environment` is that of the commands, without keys."""
    for folder in ("conf", "mas", "eval", "optimize", "prompts", "scripts", "tests"):
        shutil.copytree(PROJECT_ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for file in ("pyproject.toml", "README.md", "mas_harness.py"):
        shutil.copy(PROJECT_ROOT / file, root / file)
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    state = str(root.with_name(f"{root.name}-state"))  # each counts its sealed tests from the first
    own = {"PATH": path, "PYTHONPATH": str(root), "COLUMNS": "80", "XDG_STATE_HOME": state}
    return Checkout(root, {**environment, **own})
