"""No name leads to a file that is not the question's own, nor to another member of an archive."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mas.tools.attachments import find_attachment, use_attachments
from mas.tools.files.document import Source
from mas.tools.files.zip_package import read_member
from mas.tools.results import ToolError
from tests.file_bytes import zip_bytes

ELSEWHERE = ["../secret.txt", "secret.txt", "link.txt", "./towns.csv", "TOWNS.csv", "/etc/passwd", "towns.csv\0", ".."]

PIECES = (  # that have led elsewhere somewhere
    *("..", ".", "/", "//", "\\", "\x00", "\n", " ", ":", "C:\\", "~", "~root", "$HOME", "*", "?", "|", ";", "....//"),
    *("%2e%2e", "%2f", "%252e", "%00", "file:///", "//server/share", "/proc/self/cwd", "/dev/fd/0", "::$DATA"),
    *("\u2024\u2024", "\u2215", "\uff0f", "\uff0e\uff0e", "\u202e", "\u200b", "\u0441sv", "\ud800"),
    *("HERE", "towns.csv", "TOWNS.CSV", "towns", ".csv", "secret.txt", "link.txt"),
)


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """A folder with one attached file, next to a secret and a link to it."""
    folder = tmp_path / "question"
    folder.mkdir()
    for file in (folder / "towns.csv", folder / "secret.txt", tmp_path / "secret.txt"):
        file.write_text(file.name)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_is_that_of_an_attached_file_or_refused(question: Path, name: str) -> None:
    with use_attachments([question / "towns.csv"]):
        assert find_attachment("towns.csv") == question / "towns.csv"
        for refused in (name, str(question / "towns.csv")):
            with pytest.raises(ToolError, match=r"attached files: towns\.csv"):
                find_attachment(refused)


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=7).map("".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_name_put_together_from_pieces_leads_elsewhere(question: Path, name: str) -> None:
    name = name.replace("HERE", str(question))
    with use_attachments([question / "towns.csv"]):
        if name == "towns.csv":
            assert find_attachment(name) == question / name
        else:
            with pytest.raises(ToolError, match=r"attached files: towns\.csv"):
                find_attachment(name)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_member_is_what_is_stored_under_exactly_that_name(name: str) -> None:
    archive = Source("a.zip", zip_bytes({"towns.csv": b"town", "../up.txt": b"up"}))
    assert read_member(archive, "../up.txt").data == b"up"
    with pytest.raises(ToolError, match="has no member"):
        read_member(archive, name)
