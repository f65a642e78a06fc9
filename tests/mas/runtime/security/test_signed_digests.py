"""An edited file is noticed; one that its owner has just written, or not written yet, is not taken for edited."""

import json
from pathlib import Path
from typing import ClassVar

import pytest

from mas.runtime.errors import UserError
from mas.runtime.security.signed_digests import SignedDigests


class Digests(SignedDigests):
    FILE: ClassVar[str] = "digests.json"
    KIND: ClassVar[str] = "files of a test"
    OWNER: ClassVar[str] = "test run"


class Others(Digests):
    KIND: ClassVar[str] = "files of something else"


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def is_changed(digests: SignedDigests, name: str) -> bool:
    try:
        digests.check(name)
    except UserError as error:
        assert "was changed since the run wrote it: restore it, or start a new test run." in str(error)
        return True
    return False


def test_an_edited_file_is_noticed_in_a_later_session(tmp_path: Path) -> None:
    digests = Digests(tmp_path, "run-1")
    digests.expect("a.json", "one")
    write(tmp_path, "a.json", "one")
    later = Digests.read(tmp_path, "run-1")
    assert not is_changed(later, "a.json") and later.names == ["a.json"]
    write(tmp_path, "a.json", "two")
    assert is_changed(later, "a.json") and is_changed(digests, "a.json")


def test_the_last_two_contents_are_valid(tmp_path: Path) -> None:
    digests = Digests(tmp_path, "run-1")
    for content in ("one", "two", "two", "three"):
        digests.expect("a.json", content)
    found = {}
    for content in ("one", "two", "three"):
        write(tmp_path, "a.json", content)
        found[content] = is_changed(digests, "a.json")
    assert found == {"one": True, "two": False, "three": False}


def test_a_missing_file_is_not_written_yet_and_one_that_nobody_expects_is_foreign(
    tmp_path: Path,
) -> None:
    digests = Digests(tmp_path, "run-1")
    digests.expect("a.json", "one")
    assert not is_changed(digests, "a.json") and not is_changed(digests, "nothing.json")
    write(tmp_path, "foreign.json", "{}")
    assert is_changed(digests, "foreign.json")


def test_a_folder_has_one_digest_over_names_and_contents(tmp_path: Path) -> None:
    write(tmp_path, "new/a.md", "A")
    write(tmp_path, "new/b.md", "B")
    digests = Digests(tmp_path, "run-1")
    digests.expect("c001", tmp_path / "new")
    (tmp_path / "new").rename(tmp_path / "c001")
    assert not is_changed(digests, "c001")
    for name, text in (("c001/a.md", "changed"), ("c001/c.md", "added")):
        before = (tmp_path / name).read_text() if (tmp_path / name).exists() else None
        write(tmp_path, name, text)
        assert is_changed(digests, "c001")
        (tmp_path / name).unlink() if before is None else write(tmp_path, name, before)
    assert not is_changed(digests, "c001")
    (tmp_path / "c001" / "a.md").rename(tmp_path / "c001" / "d.md")
    assert is_changed(digests, "c001")


def test_files_are_adopted_as_they_are_and_no_others(tmp_path: Path) -> None:
    digests = Digests(tmp_path, "run-1")
    digests.expect("old.json", "old")
    write(tmp_path, "a.json", "edited")
    digests.adopt(["a.json", "nothing.json"])
    assert digests.names == Digests.read(tmp_path, "run-1").names == ["a.json"]
    assert not is_changed(digests, "a.json")


def test_digests_that_are_gone_are_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"digests\.json is missing, so nothing shows .* or start a new test run\.$"):
        Digests.read(tmp_path, "run-1")


@pytest.mark.parametrize("damage", ["not json", "[]", "{}", '{"digests": {}}', '{"digests": {}, "signature": ""}'])
def test_damaged_digests_are_refused(tmp_path: Path, damage: str) -> None:
    write(tmp_path, "digests.json", damage)
    with pytest.raises(UserError, match=r"digests\.json, which this installation signs, was changed"):
        Digests.read(tmp_path, "run-1")


def test_digests_of_another_run_or_kind_or_with_an_edited_line_are_refused(tmp_path: Path) -> None:
    Digests(tmp_path, "run-1").expect("a.json", "one")
    for kind, owner in ((Digests, "run-2"), (Others, "run-1")):
        with pytest.raises(UserError, match="was changed"):
            kind.read(tmp_path, owner)
    content = json.loads((tmp_path / "digests.json").read_text())
    content["digests"]["b.json"] = content["digests"]["a.json"]
    write(tmp_path, "digests.json", json.dumps(content))
    with pytest.raises(UserError, match="was changed"):
        Digests.read(tmp_path, "run-1")


def test_what_cannot_be_read_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = Digests(tmp_path, "run-1")
    write(tmp_path, "a.json", "one")

    def refuse(path: Path) -> bytes:
        raise PermissionError("no right")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UserError, match=r"a\.json cannot be read \(no right\); check its permissions\."):
        digests.check("a.json")


def test_without_a_key_nothing_is_signed_and_the_next_session_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr("mas.runtime.security.signed_digests.sign", lambda *parts: calls.append(parts) or "")
    digests = Digests(tmp_path, "run-1")
    for content in ("one", "two"):
        digests.expect("a.json", content)
    assert len(calls) == 1, "the warning is not repeated for each file"
    with pytest.raises(UserError, match="was changed"):
        Digests.read(tmp_path, "run-1")
