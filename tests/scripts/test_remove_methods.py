"""The conformance tests notice each method of a contract that one of its implementations loses."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_no_removal_is_unnoticed() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/remove_methods.py"], cwd=ROOT, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 unnoticed" in done.stdout.splitlines()[-1]
