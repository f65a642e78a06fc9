"""Deletion of a run: in its place alone, never through a link, never while it is used."""

from pathlib import Path

import pytest

from eval.runs.deletion import check_place, delete_run
from eval.runs.folder import RunLock
from mas.runtime.errors import UserError


def a_run(folder: Path, marker: str = "run.db") -> Path:
    (folder / "logs").mkdir(parents=True)
    (folder / marker).touch()
    return folder


def refusal(folder: Path, inside: Path) -> str:
    with pytest.raises(UserError) as refused:
        delete_run(folder, inside)
    assert folder.exists()
    return str(refused.value)


@pytest.mark.parametrize("marker", ["run.db", "splits.json"])
def test_a_run_is_deleted_with_all_that_is_in_it(marker: str, tmp_path: Path) -> None:
    run, other = a_run(tmp_path / "outputs" / "eval" / "one", marker), a_run(tmp_path / "outputs" / "eval" / "two")
    delete_run(run, tmp_path / "outputs")
    assert not run.exists() and other.exists()


def test_a_run_is_deleted_where_the_way_to_all_runs_has_a_link(tmp_path: Path) -> None:
    run = a_run(tmp_path / "disk" / "one")
    (tmp_path / "outputs").symlink_to(tmp_path / "disk")
    delete_run(tmp_path / "outputs" / "one", tmp_path / "outputs")
    assert not run.exists()


@pytest.mark.parametrize("folder", ["elsewhere/run", "outputs", "outputs/../elsewhere/run", "outputs-more/run"])
def test_what_is_not_below_the_place_of_runs_is_left_alone(folder: str, tmp_path: Path) -> None:
    for each in ("elsewhere/run", "outputs", "outputs-more/run"):
        a_run(tmp_path / each)
    assert refusal(tmp_path / folder, tmp_path / "outputs") == (
        f"{tmp_path / folder} is not inside {tmp_path / 'outputs'}; remove it by hand."
    )


def test_what_is_reached_through_a_link_is_left_alone(tmp_path: Path) -> None:
    run = a_run(tmp_path / "outputs" / "eval" / "run")
    (tmp_path / "outputs" / "link").symlink_to(run)
    (tmp_path / "aside").symlink_to(tmp_path / "outputs")
    for folder in (tmp_path / "outputs" / "link", tmp_path / "aside" / "eval" / "run"):
        assert refusal(folder, tmp_path / "outputs") == f"{folder} is reached through a link; remove it by hand."
    check_place(run, tmp_path / "outputs")


@pytest.mark.parametrize("marker", ["run.db", "splits.json"])
def test_a_run_that_is_in_use_is_left_alone_until_it_is_free(marker: str, tmp_path: Path) -> None:
    run = a_run(tmp_path / "outputs" / "run", marker)
    held = RunLock(run / "run.db")
    held.take()
    try:
        assert refusal(run, tmp_path / "outputs") == f"{run} is in use; stop the run first."
    finally:
        held.release()
    delete_run(run, tmp_path / "outputs")
    assert not run.exists()


def test_a_folder_with_a_link_in_it_is_left_alone(tmp_path: Path) -> None:
    run = a_run(tmp_path / "outputs" / "run")
    (run / "link").symlink_to(tmp_path)
    assert "is a link or a special file" in refusal(run, tmp_path / "outputs")


def test_a_folder_that_cannot_be_removed_is_free_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path / "outputs" / "run")

    def fail(folder: Path) -> None:
        raise PermissionError("no")

    monkeypatch.setattr("eval.runs.deletion.shutil.rmtree", fail)
    for _ in range(2):
        with pytest.raises(PermissionError):
            delete_run(run, tmp_path / "outputs")
