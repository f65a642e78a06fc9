"""Python and the packages that `pyproject.toml` asks for; the standard library alone, since the rest may be missing."""

from __future__ import annotations  # read under Pythons that are too old for the rest

import re
import sys
from importlib import metadata
from pathlib import Path

from eval.workflows.checks.finding import MISSING, OK, WARNING, Finding

OLDEST, NEWEST = (3, 11), (3, 13)
SETUP = "make setup"


def python_version(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    found = ".".join(map(str, version))
    if OLDEST <= version[:2] <= NEWEST:
        return Finding("python", OK, found)
    mend = f"install Python 3.12, then {SETUP} PYTHON=python3.12"
    return Finding("python", MISSING, f"{found}; 3.11, 3.12 or 3.13 is needed", mend)


def packages(pyproject: Path) -> Finding:
    """The project itself and its base dependencies, with their versions."""
    import tomllib  # Python 3.11

    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    wanted = [project["name"], *project["dependencies"]]
    absent = [name for name in map(_name, wanted) if _version(name) is None]
    if absent:
        mend = f"{SETUP}, then use .venv/bin/python (or: source .venv/bin/activate)"
        return Finding("packages", MISSING, f"{len(absent)} of {len(wanted)} missing: {', '.join(absent)}", mend)
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
