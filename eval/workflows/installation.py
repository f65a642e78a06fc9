"""Findings of the doctor, and its checks of Python and of the packages that `pyproject.toml` asks for.

Only the standard library is used here, since the rest may be missing.
"""

from __future__ import annotations  # read under Pythons that are too old for the rest

import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

OK, MISSING, WARNING = "ok", "missing", "warning"  # MISSING: the chosen configuration cannot run
NAME_COLUMN = 9  # characters of the mark before it
WHAT_COLUMN = 24
OLDEST, NEWEST = (3, 11), (3, 13)
SETUP = "make setup"


@dataclass(frozen=True)
class Finding:
    name: str
    state: str
    what: str
    remedy: str = ""  # how to get what is missing; empty: nothing to do

    def __str__(self) -> str:
        line = f"{self.state:<{NAME_COLUMN}}{self.name:<{WHAT_COLUMN - NAME_COLUMN}}{self.what}"
        return f"{line}\n{' ' * WHAT_COLUMN}→ {self.remedy}" if self.remedy else line


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    found = ".".join(map(str, version))
    if OLDEST <= version[:2] <= NEWEST:
        return Finding("python", OK, found)
    remedy = f"install Python 3.12, then {SETUP} PYTHON=python3.12"
    return Finding("python", MISSING, f"{found}; 3.11, 3.12 or 3.13 is needed", remedy)


def check_packages(pyproject: Path) -> Finding:
    """Check the project itself and its base dependencies, with their versions."""
    import tomllib  # Python 3.11

    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    wanted = [project["name"], *project["dependencies"]]
    absent = [name for name in map(_name, wanted) if _version(name) is None]
    if absent:
        remedy = f"{SETUP}, then use .venv/bin/python (or: source .venv/bin/activate)"
        return Finding("packages", MISSING, f"{len(absent)} of {len(wanted)} missing: {', '.join(absent)}", remedy)
    if unfit := [text for text in wanted if not _fits(text)]:
        found = ", ".join(f"{_name(text)} {_version(_name(text))} (wanted: {text})" for text in unfit)
        return Finding("packages", WARNING, f"not the versions asked for: {found}", SETUP)
    return Finding("packages", OK, f"all {len(wanted)} in the versions asked for")


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fits(requirement: str) -> bool:
    from packaging.requirements import Requirement

    wanted = Requirement(requirement)
    return wanted.specifier.contains(_version(wanted.name) or "", prereleases=True)
