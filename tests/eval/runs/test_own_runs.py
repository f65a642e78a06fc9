"""The list of the runs made on this machine: what is in it is resumed as it was started, all else is data."""

from pathlib import Path

import pytest

from eval.runs.own_runs import is_own_run, note_run, read_command
from mas.runtime.security.private_file import find_state_folder


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_run_is_known_by_its_id_and_folder_with_its_last_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    note_run("1f3a", Path("here"), ["limit=3", "run.name=ä"])
    note_run("2b", tmp_path / "there")
    note_run("1f3a", tmp_path / "here", ["limit=4"])
    assert read_command("1f3a", tmp_path / "here") == ["limit=4"] and read_command("2b", tmp_path / "there") == []
    assert not is_own_run("1f3a", tmp_path / "there"), "a copy with the id of another run"
    assert not is_own_run("1f3a", tmp_path / "moved") and not is_own_run("", tmp_path / "here")
    file = find_state_folder() / "runs.jsonl"
    assert file.stat().st_mode & 0o077 == 0
    file.write_text(file.read_text() + '{"id": "1f3a", "folder": "/cut o')
    assert read_command("1f3a", tmp_path / "here") == ["limit=4"]


def test_a_list_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    note_run("1f3a", tmp_path, ["limit=3"])
    assert not is_own_run("1f3a", tmp_path)
