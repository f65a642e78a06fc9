"""A machine on which a tool cannot work: the user reads it before the run, and in the summary if it was called."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT


@pytest.mark.slow
def test_python_without_isolation_is_named_before_the_run_and_in_the_summary(
    tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    options = [
        "system=bos",
        "data=bos_sample",
        "model=offline",
        "ids=[computation-val-01,computation-val-02]",
        "tracking=off",
        f"run.dir={tmp_path / 'r'}",
    ]
    ended = subprocess.run(
        [sys.executable, PROJECT_ROOT / "eval" / "run.py", *options],
        env={**clean_environment, "PATH": "/nowhere", "DENO_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    before, *_ = ended.stderr.splitlines()
    assert "python_repl_tool" in before and "apt-get install bubblewrap" in before
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["tool_errors"]["python_repl_tool"] == summary["calls_by_tool"]["python_repl_tool"] > 0
    assert "bubblewrap is not installed" in summary["first_tool_errors"]["python_repl_tool"]
    assert "python_repl_tool never worked" in ended.stdout and "bubblewrap is not installed" in ended.stdout
