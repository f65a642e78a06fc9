"""What the hardest inputs of each kind cost the process of the run: little memory, little time, and an end in time."""

import json
import subprocess
import sys

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.hostile_inputs import ATTACHED, PAGES

GROWN_MB = 300  # the goal; most take below 10
SECONDS = 3  # until a reading is cut off
OWN_CPU_SECONDS = 2.0  # on the thread that waits, and for a small page of the text


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, object]]:
    """What each of them costs, in a process of its own."""
    command = [sys.executable, "tests/hostile_inputs.py", *ATTACHED, *PAGES, "--seconds", str(SECONDS)]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(ATTACHED) + len(PAGES), done.stderr
    return {each["name"]: each for each in found}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("name", [*ATTACHED, *PAGES])
def test_no_input_of_any_kind_takes_much_of_the_run(name: str, measured: dict[str, dict[str, object]]) -> None:
    found = measured[name]
    assert int(str(found["bytes"])) < 50_000_000
    assert found["outcome"] in ("read", "refused", "cut off")
    assert float(str(found["grown_mb"])) <= GROWN_MB, found
    assert float(str(found["own_cpu_seconds"])) <= OWN_CPU_SECONDS, found
    assert float(str(found["seconds"])) <= SECONDS + 60, found
