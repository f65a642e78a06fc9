"""The lines of the second system's specification: tests name existing lines, and none loses its tests."""

import subprocess
import sys

from eval.cli.paths import PROJECT_ROOT
from scripts.bos_requirements import find_tests, read_requirements

REQUIREMENTS = read_requirements()
N_LINES = {"R": 16, "T": 9, "O": 9, "P": 24, "G": 18, "A": 10, "Q": 27, "D": 26, "C": 10, "M": 13, "E": 7, "W": 6}
OPEN = {"W06"}  # a figure of a benchmark


def test_every_line_of_the_specification_is_there_once() -> None:
    expected = [f"{letter}{number:02}" for letter, n in N_LINES.items() for number in range(1, n + 1)]
    assert [each.id for each in REQUIREMENTS] == expected
    assert all(each.asks for each in REQUIREMENTS)


def test_tests_name_lines_that_exist() -> None:
    assert set(find_tests()) <= {each.id for each in REQUIREMENTS}


def test_every_line_that_is_built_has_a_test() -> None:
    assert {each.id for each in REQUIREMENTS if not each.tests} == OPEN


def test_the_script_prints_every_line_with_its_tests() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/bos_requirements.py"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    n_open = sum(not each.tests for each in REQUIREMENTS)
    assert done.returncode == (1 if n_open else 0) and done.stderr == ""
    for each in REQUIREMENTS:
        assert "\n".join(each.format()) + "\n" in done.stdout
    assert done.stdout.endswith(f"{len(REQUIREMENTS)} lines, {n_open} without a test\n")
