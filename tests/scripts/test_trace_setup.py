"""Setting up a run enters few files: whoever adds one merges another, or keeps it out of a set-up that needs it not."""

import re
import subprocess
import sys

import pytest

from eval.cli.paths import PROJECT_ROOT

TUNING = ("optimize", "system=toy", "data=toy", "model=offline", "yes=true")


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "most"), [((), 18), (TUNING, 25)], ids=["evaluating", "tuning"])
def test_setting_up_a_run_enters_few_of_our_files(
    arguments: tuple[str, ...], most: int, clean_environment: dict[str, str]
) -> None:
    command = [sys.executable, str(PROJECT_ROOT / "scripts" / "trace_setup.py"), *arguments]
    environment = {**clean_environment, "PYTHONPATH": str(PROJECT_ROOT)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.search(r"^(\d+) files are entered before the first sample, and", ended.stdout, re.M)
    assert found, ended.stdout + ended.stderr
    assert int(found[1]) <= most, ended.stdout
