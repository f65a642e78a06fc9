"""Print what is asked of the second system, line by line, with the tests that name the line.

    python scripts/bos_requirements.py             # all lines; exit code 1 if one has no test
    python scripts/bos_requirements.py --open      # those without a test
    python scripts/bos_requirements.py | grep -A4 "^P11"

The lines are in tests/docs/bos_requirements.yaml. A test names its lines in its own name (`test_p11_the_table_of_ties`,
`test_g11_g12_…`) or in its docstring (`P11`); tests below tests/mas/systems/bos/ are read.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "docs" / "bos_requirements.yaml"
TESTS = ROOT / "tests" / "mas" / "systems" / "bos"
_IN_NAME = re.compile(r"(?<=_)([a-z]\d\d)(?=_|$)")
_IN_DOCSTRING = re.compile(r"\b([A-Z]\d\d)\b")


@dataclass(frozen=True)
class Requirement:
    """One thing that is asked of the system."""

    id: str
    asks: str
    is_reading: bool = False  # the source is silent or contradicts itself; this is how it is read
    tests: tuple[str, ...] = ()  # "mas/systems/bos/test_x.py::test_y", under tests/

    def format(self) -> Iterator[str]:
        yield f"{self.id} {'✔' if self.tests else '✘'} {self.asks}"
        yield from (f"       tests/{test}" for test in self.tests)


def read_requirements(path: Path = DATA, folder: Path = TESTS) -> list[Requirement]:
    tests = find_tests(folder)
    rows = yaml.safe_load(path.read_text("utf-8"))
    return [Requirement(**row, tests=tuple(tests.get(row["id"], ()))) for row in rows]


def find_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """Return the tests that name each line."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                ids = [name.upper() for name in _IN_NAME.findall(node.name)]
                ids += _IN_DOCSTRING.findall(ast.get_docstring(node) or "")
                for each in dict.fromkeys(ids):
                    found[each].append(f"{path.relative_to(ROOT / 'tests').as_posix()}::{node.name}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the requirements of the second system with their tests.")
    parser.add_argument("--open", action="store_true", help="only lines without a test")
    given = parser.parse_args(arguments)
    requirements = read_requirements()
    for each in requirements:
        if not (given.open and each.tests):
            print("\n".join(each.format()))
    n_open = sum(not each.tests for each in requirements)
    print(f"{len(requirements)} lines, {n_open} without a test")
    return 1 if n_open else 0


if __name__ == "__main__":
    sys.exit(main())
