"""The doctor's findings about a machine that lacks something."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.config.tracking import NoTracking
from eval.workflows.checks import machine
from eval.workflows.checks.installation import MISSING, OK, WARNING
from eval.workflows.checks.machine import (
    MIN_FREE_BYTES,
    check_browser,
    check_disk,
    check_isolation,
    check_mlflow_store,
    check_ocr,
    check_readers,
)


def test_the_part_of_a_path_that_exists_is_tried(tmp_path: Path) -> None:
    found = check_disk(tmp_path / "not" / "there" / "yet")
    assert found.state == OK and tmp_path.name in found.what and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("free", "state"), [(MIN_FREE_BYTES, OK), (MIN_FREE_BYTES - 1, WARNING)])
def test_little_space_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    assert check_disk(tmp_path).state == state


def test_a_folder_that_cannot_be_written_is_no_place_for_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine.tempfile, "TemporaryFile", refuse)
    found = check_disk(tmp_path)
    assert found.state == MISSING and found.what.endswith("cannot be written: No space left on device")


@pytest.mark.parametrize(("check", "program"), [(check_browser, "google-chrome"), (check_ocr, "tesseract")])
def test_a_program_is_found_or_named(check: Callable[[], Any], program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == program else None)
    assert (check().state, check().what) == (OK, f"/usr/bin/{program}")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert check().state == WARNING and check().remedy.startswith("apt-get install ")


@pytest.mark.parametrize(
    ("name", "probe", "state", "words"),
    [
        ("bubblewrap", "it works", OK, "it works"),
        ("deno", "it works", WARNING, "the second choice: it works"),
        ("none", "", WARNING, "the tool python refuses"),
    ],
)
def test_an_isolation_that_is_not_the_best_says_why(
    name: str, probe: str, state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = SimpleNamespace(isolation=SimpleNamespace(name=name), probe_result=probe, refused=["no", "right"])
    monkeypatch.setattr(machine, "try_isolations", lambda kind: choice)
    found = check_isolation()
    assert found.state == state and found.what.startswith(words)
    assert (found.remedy == "no right") == (state == WARNING)


def readers(folder: Path, monkeypatch: pytest.MonkeyPatch, has: bool) -> dict[str, str]:
    """Return the findings, by the beginning of each."""
    monkeypatch.setattr(machine.ocr, "is_installed", lambda: has)
    monkeypatch.setattr(machine.converted, "is_installed", lambda: has)
    monkeypatch.setattr(machine, "is_isolated", lambda: has)
    return {each.what: each.state for each in check_readers(folder)}


def test_one_file_of_each_kind_is_read_and_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("a.txt", "deep/b.csv", "metadata.jsonl"):
        (tmp_path / name).write_text("x,y\n1,2\n")
    found = readers(tmp_path, monkeypatch, has=True)
    [read] = [each for each in found if each.startswith("read: ")]
    assert found[read] == OK and read.endswith("(tried: .csv, .txt)")
    assert [each for each in found if "isolates" in each] and not [each for each in found if "tesseract" in each]
    poor = readers(tmp_path, monkeypatch, has=False)
    missing = [each for each in poor if each not in found]
    assert len(missing) == 3 and {poor[each] for each in missing} == {WARNING}
    for words in ("since their text needs tesseract", "LibreOffice is not installed", "but without isolation"):
        assert any(words in each for each in missing)


def test_a_file_that_cannot_be_read_is_named_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04 and then nothing")
    (tmp_path / "b.txt").write_text("fine")
    found = readers(tmp_path, monkeypatch, has=True)
    assert found["sample files cannot be read: .xlsx"] == WARNING


def test_a_store_of_mlflow_is_opened_and_not_changed(tmp_path: Path) -> None:
    assert check_mlflow_store(NoTracking()).what == "off (tracking=off)"
    tracking = SimpleNamespace(folder=str(tmp_path))
    assert check_mlflow_store(tracking).what.endswith("not there yet, the first run makes it")
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    connection.close()
    assert check_mlflow_store(tracking).state == OK
    (tmp_path / "mlflow.db").write_text("no database at all, but long enough to be read as one")
    found = check_mlflow_store(tracking)
    assert found.state == WARNING and "is no MLflow store" in found.what
