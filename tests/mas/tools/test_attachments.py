"""No name, however it is made up, leads to a file that is not the question's own, nor to another member of an archive.

Names are put together from pieces that have led elsewhere somewhere: steps up, separators, NUL, drives, encoded and
look-alike letters, links, the files' own names and paths.
"""

import io
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mas.tools.attachments import find_attachment, use_attachments
from mas.tools.files.document import Source
from mas.tools.files.readers.archive import read, read_member
from mas.tools.read_file import read_file
from mas.tools.results import ToolError

OWN, OTHER, SECRET, NESTED = "towns.csv", "notes.txt", "secret.txt", "in.zip"
CONTENTS = {OWN: "town,people\nVelmor,412\n", OTHER: "Brankholm lies at the sea\n"}
MARKERS = {OWN: "Velmor", OTHER: "Brankholm"}
MARKER = "marker-of-the-secret"
LOOK_ALIKES = ("\u2024\u2024", "\u2215", "\u29f8", "\uff0f", "\uff0e\uff0e", "\u2044", "\u202e", "\u200b", "\u0441sv")
PIECES = (
    *("..", ".", "/", "//", "\\", "\x00", "\n", " ", "", ":", "C:", "C:\\", "~", "~root", "$HOME", "*", "?", "|", ";"),
    *("%2e", "%2e%2e", "%2f", "%252e", "%00", "%5c", "..;", "....//"),
    *("file://", "file:///", "\\\\?\\", "//server/share"),
    *("/proc/self/cwd", "/dev/fd/0", "/etc/passwd", "CON", "::$DATA", "\ud800", "\U0001f600", "folder", *LOOK_ALIKES),
    *(OWN, OTHER, SECRET, NESTED, "link.txt", "linked", OWN.upper(), OWN.replace(".", "\uff0e"), "towns", ".csv"),
)
PATHS = ("<root>", "<question>", "<own>", "<secret>")  # made absolute when the folder is known


def names(*more: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from((*PIECES, *more)) | st.text(max_size=3), max_size=7).map("".join)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Two attached files, in a folder that is also the current one; beside and above them a secret and ways to it."""
    question = tmp_path / "question"
    question.mkdir()
    for name, content in CONTENTS.items():
        (question / name).write_text(content)
    for folder in (tmp_path, question):
        (folder / SECRET).write_text(MARKER)
    (question / "link.txt").symlink_to(tmp_path / SECRET)
    (question / "linked").symlink_to(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(question)
        with use_attachments([question / name for name in CONTENTS]):
            yield tmp_path


@given(names(*PATHS))
@example(OWN)
@example(OTHER)
@example("<own>")
@example("<question>/linked/secret.txt")
@example("/proc/self/cwd/secret.txt")
@example(f"{OWN}\x00")
@example(f"../question/{OWN}")
@example(f"./{OWN}")
@example(OWN.upper())
@example("link.txt")
@example("../secret.txt")
@example("~/.ssh/id_rsa")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_name_is_that_of_an_attached_file_or_refused(root: Path, pattern: str) -> None:
    question = root / "question"
    places = dict(zip(PATHS, (root, question, question / OWN, root / SECRET), strict=True))
    name = pattern
    for mark, path in places.items():
        name = name.replace(mark, str(path))
    if name in CONTENTS:
        assert find_attachment(name) == question / name
        shown = read_file(name)
        assert [each for each, text in MARKERS.items() if text in shown] == [name] and MARKER not in shown
        return
    with pytest.raises(ToolError):
        find_attachment(name)
    with pytest.raises(ToolError, match=f"attached files: {OTHER}, {OWN}; give one of these names") as refused:
        read_file(name)
    assert MARKER not in str(refused.value)


def zipped(contents: dict[str, bytes], link_to: str = "") -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        for name, content in contents.items():
            info = zipfile.ZipInfo()
            info.filename = name  # given to ZipInfo itself, it would be cut at a NUL
            made.writestr(info, content)
        if link_to:
            info = zipfile.ZipInfo("link.txt")
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            made.writestr(info, link_to)
    return written.getvalue()


INSIDE = {f"{OTHER}": b"inside notes", "a/b.txt": b"inside b"}
STORED = {OWN: b"outer towns", "a/b.txt": b"outer b", NESTED: zipped(INSIDE, "/etc/passwd"), "..hidden": b"dots"}
LINKS = {"link.txt": f"/proc/self/cwd/{SECRET}".encode(), f"{NESTED}/link.txt": b"/etc/passwd"}  # read as texts
READABLE = STORED | LINKS | {f"{NESTED}/{name}": content for name, content in INSIDE.items()}
ARCHIVE = Source("data.zip", zipped(STORED, f"/proc/self/cwd/{SECRET}"))


@given(names("a/", "b.txt", "a/b.txt", f"{NESTED}/", "..hidden"))
@example(OWN)
@example(f"{NESTED}/a/b.txt")
@example(f"{NESTED}/link.txt")
@example(f"{NESTED}/../{OWN}")
@example(f"{NESTED}/{NESTED}")
@example("a/../a/b.txt")
@example(f"{OWN}//server/share")  # below a member that is no archive
def test_a_member_is_what_is_stored_under_exactly_that_name_or_refused(name: str) -> None:
    if name in READABLE:
        assert read_member(ARCHIVE, name).data == READABLE[name]
    else:
        with pytest.raises(ToolError, match=r"has no member|not read|is damaged or unusual"):
            read_member(ARCHIVE, name)


@given(st.dictionaries(names().filter(lambda name: len(name) < 200), st.binary(max_size=20), max_size=4))
@example({"": b"nameless"})
@example({"\x00": b"nameless, too"})
@example({OWN: b"kept", f"{OWN}\x00.txt": b"the same once it is cut"})
@example({"a\\b.txt": b"backslash", "a/b.txt": b"slash"})
def test_an_archive_with_made_up_names_gives_each_members_own_bytes_or_refuses_it(made: dict[str, bytes]) -> None:
    stored = {name: content for name, content in made.items() if encodable(name)}
    source = Source("data.zip", zipped({"plain.txt": b"plain", **stored}))
    read(source)
    assert read_member(source, "plain.txt").data == stored.get("plain.txt", b"plain")
    for name, content in stored.items():
        try:
            found = read_member(source, name).data
        except ToolError:
            continue
        assert found == content


def encodable(name: str) -> bool:
    """Half a surrogate pair cannot be written into an archive."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False
