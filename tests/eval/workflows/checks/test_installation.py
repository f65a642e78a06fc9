"""The doctor's findings about Python and the packages."""

from importlib import metadata
from pathlib import Path

import pytest

from eval.workflows.checks.installation import MISSING, OK, WARNING, Finding, check_packages, check_python


@pytest.mark.parametrize(
    ("version", "is_fit"),
    [
        ((2, 12, 9), False),
        ((3, 10, 99), False),
        ((3, 11, 0), True),
        ((3, 12, 7), True),
        ((3, 13, 99), True),
        ((3, 14, 0), False),
        ((4, 12, 0), False),
    ],
)
def test_a_python_is_neither_too_old_nor_too_new(version: tuple[int, ...], is_fit: bool) -> None:
    text = ".".join(map(str, version))
    assert check_python(version) == (
        Finding("python", OK, text)
        if is_fit
        else Finding(
            "python",
            MISSING,
            f"{text}; 3.11, 3.12 or 3.13 is needed",
            "install Python 3.12, then make setup PYTHON=python3.12",
        )
    )


def test_it_is_the_running_python_that_is_looked_at() -> None:
    found = check_python()
    assert found.state == OK and len(found.what.split(".")) == 3


def findings(tmp_path: Path, name: str, *dependencies: str) -> Finding:
    file = tmp_path / "pyproject.toml"
    quoted = ", ".join(f'"{each}"' for each in dependencies)
    file.write_text(f'[project]\nname = "{name}"\ndependencies = [{quoted}]\n')
    return check_packages(file)


def test_packages_are_there_missing_or_of_another_version(tmp_path: Path) -> None:
    version = metadata.version("rich")
    assert findings(tmp_path, "pytest", "rich[jupyter]>=1", f"rich=={version}", "PyYAML") == Finding(
        "packages", OK, "all 4 in the versions asked for"
    )
    assert findings(tmp_path, "not-here", "rich<1", "nor.this_one>=2;python_version>'3'", "PyYAML") == Finding(
        "packages",
        MISSING,
        "2 of 4 missing: not-here, nor.this_one",
        "make setup, then use .venv/bin/python (or: source .venv/bin/activate)",
    )
    assert findings(tmp_path, "pytest", "rich<1", "PyYAML>=1", f"rich!={version}") == Finding(
        "packages",
        WARNING,
        f"not the versions asked for: rich {version} (wanted: rich<1), rich {version} (wanted: rich!={version})",
        "make setup",
    )


def test_a_version_before_its_release_is_one_of_those_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "2.0rc1")
    assert findings(tmp_path, "pytest", "rich>=1").state == OK
    assert findings(tmp_path, "pytest", "rich>=2").state == WARNING


@pytest.mark.parametrize(("state", "begin"), [(OK, "ok       "), (MISSING, "missing  "), (WARNING, "warning  ")])
def test_a_finding_is_a_row_of_three_columns_and_its_remedy_is_below_the_third(state: str, begin: str) -> None:
    assert str(Finding("tool", state, "what")) == f"{begin}tool           what"
    assert str(Finding("tool", state, "what", "do it")) == f"{begin}tool           what\n{24 * ' '}→ do it"
