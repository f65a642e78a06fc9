"""The list of what the design of the GAIA system asks for: each line has a test or a decision, and they exist."""

import ast
import functools
import re
import subprocess
import sys
import tomllib

import pytest

from eval.cli.paths import PROJECT_ROOT
from scripts.gaia_requirements import Requirement, read_requirements

REQUIREMENTS = read_requirements()
N_LINES = 110


@functools.cache
def read_test_names(file: str) -> frozenset[str]:
    tree = ast.parse((PROJECT_ROOT / "tests" / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@functools.cache
def read_decisions() -> frozenset[str]:
    text = (PROJECT_ROOT / "docs/explanation/decisions.md").read_text("utf-8")
    return frozenset(re.findall(r"^### (\d+[a-d]?)\. ", text, re.MULTILINE))


def test_every_line_of_the_design_is_there_once() -> None:
    assert [each.id for each in REQUIREMENTS] == [f"A{number:03}" for number in range(1, N_LINES + 1)]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=[each.id for each in REQUIREMENTS])
def test_a_line_has_tests_and_decisions_that_exist(requirement: Requirement) -> None:
    assert requirement.asks and (requirement.tests or requirement.decisions or requirement.open)
    assert len(set(requirement.tests)) == len(requirement.tests)
    for test in requirement.tests:
        file, _, name = test.partition("::")
        assert name.startswith("test_") and name in read_test_names(file), test
    assert set(requirement.decisions) <= read_decisions()


def test_the_departures_from_the_design_are_recorded() -> None:
    assert {str(number) for number in range(17, 25)} <= read_decisions()


def test_the_script_prints_every_line_with_its_tests() -> None:
    command = [sys.executable, "scripts/gaia_requirements.py"]
    printed = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True).stdout
    for each in REQUIREMENTS:
        assert f"{each.id} {each.mark} {each.asks}\n" in printed
        assert [test for test in each.tests if f"tests/{test}\n" not in printed] == []
    n_open = sum(each.open is not None for each in REQUIREMENTS)
    assert printed.endswith(f"{N_LINES} lines, {n_open} open\n")


def test_one_command_says_which_lines_all_tests_reach() -> None:
    makefile = (PROJECT_ROOT / "Makefile").read_text("utf-8")
    fast, slow = makefile.partition("\ncoverage:")[2].partition("\n\n")[0].splitlines()[-2:]
    assert '-m "not slow" ' in fast and " --cov " in fast
    assert "-m slow " in slow and " --cov --cov-append --cov-report=term" in slow
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text("utf-8"))
    assert "pytest-cov" in project["project"]["optional-dependencies"]["dev"]
    assert project["tool"]["coverage"]["run"]["source"] == ["mas", "eval", "optimize", "mas_harness"]
    assert re.search(r"^pytest-cov==", (PROJECT_ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
