"""A file that is old or new, never half written, and its owner's alone."""

import os
from pathlib import Path

import pytest

from mas.runtime.security.private_file import write_atomically


def test_a_file_takes_its_name_once_all_is_written_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text("old")
    before = os.umask(0)
    try:
        with write_atomically(path) as file:
            file.write("né\n")
            assert path.read_text() == "old"
    finally:
        os.umask(before)
    assert path.read_bytes() == "né\n".encode()
    assert path.stat().st_mode & 0o777 == 0o600
    with write_atomically(path, "latin-1") as file:
        file.write("né")
    assert path.read_bytes() == b"n\xe9"
    assert [each.name for each in tmp_path.iterdir()] == ["summary.json"]


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with write_atomically(path) as file:
            file.write("half")
            raise ValueError("in between")

    with pytest.raises(ValueError, match="in between"):
        fail()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "old")]


def test_what_a_killed_process_left_is_replaced_and_a_link_is_not_followed(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    other.write_text("not mine")
    (tmp_path / f"file.{os.getpid()}.tmp").symlink_to(other)
    with write_atomically(path) as file:
        file.write("new")
    assert (path.read_text(), other.read_text(), path.is_symlink()) == ("new", "not mine", False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "other"]


def test_all_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[tuple[int, bool]]()
    path = tmp_path / "file"
    monkeypatch.setattr(os, "fsync", lambda number: synced.append((os.fstat(number).st_size, path.exists())))
    with write_atomically(path) as file:
        file.write("12345")
    assert synced == [(5, False)]
