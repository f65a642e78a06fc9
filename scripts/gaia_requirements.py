"""Print what the design of the GAIA system asks for, line by line, with the tests and decisions that pin it.

    python scripts/gaia_requirements.py             # all lines
    python scripts/gaia_requirements.py --open      # those that are not done
    python scripts/gaia_requirements.py | grep -A4 retry

The list is tests/docs/gaia_requirements.yaml; a test checks that every test and decision in it exists.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "docs" / "gaia_requirements.yaml"


@dataclass(frozen=True)
class Requirement:
    """One line of the design."""

    id: str
    asks: str
    tests: tuple[str, ...] = ()  # "mas/test_x.py::test_y", under tests/
    decisions: tuple[str, ...] = ()  # numbers of docs/explanation/decisions.md
    open: str | None = None  # what is not done yet, and why

    @property
    def mark(self) -> str:
        """✘ open, ✔ done, § settled by a decision alone."""
        return "✘" if self.open else "✔" if self.tests else "§"

    def format(self) -> Iterator[str]:
        yield f"{self.id} {self.mark} {self.asks}"
        if self.open:
            yield f"       open: {self.open}"
        if self.decisions:
            yield f"       docs/explanation/decisions.md {', '.join(self.decisions)}"
        yield from (f"       tests/{test}" for test in self.tests)


def read_requirements(path: Path = DATA) -> list[Requirement]:
    rows = yaml.safe_load(path.read_text("utf-8"))
    lists = ("tests", "decisions")
    found = [Requirement(**{**row, **{name: tuple(row.get(name, ())) for name in lists}}) for row in rows]
    return sorted(found, key=lambda each: each.id)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the requirements of the GAIA system with their tests.")
    parser.add_argument("--open", action="store_true", help="only what is not done")
    given = parser.parse_args(arguments)
    requirements = read_requirements()
    for each in requirements:
        if each.open or not given.open:
            print("\n".join(each.format()))
    n_open = sum(each.open is not None for each in requirements)
    print(f"{len(requirements)} lines, {n_open} open")
    return 0


if __name__ == "__main__":
    sys.exit(main())
