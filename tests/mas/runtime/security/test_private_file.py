"""Files that are written whole or not at all."""

import stat
from pathlib import Path

import pytest

from mas.runtime.security.private_file import write_atomically


def test_a_reader_sees_the_old_content_or_the_whole_new_one(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text("old")
    with pytest.raises(OSError, match="full"), write_atomically(path) as file:
        file.write("half")
        raise OSError("the disk is full")
    with write_atomically(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
