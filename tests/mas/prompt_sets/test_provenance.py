"""The file of a published prompt set: what it may hold, who wrote it, and which files were edited since."""

import hashlib
from pathlib import Path

import pytest

from mas.prompt_sets.provenance import (
    PROVENANCE_FILE,
    find_edited_files,
    is_own_provenance,
    read_provenance,
    sign_provenance,
)
from mas.runtime.errors import UserError


def test_a_set_without_the_file_has_no_provenance(tmp_path: Path) -> None:
    assert read_provenance(tmp_path) == {}
    (tmp_path / PROVENANCE_FILE).write_text("gated: true\nchecksums: {a.txt: abc}\n")
    assert read_provenance(tmp_path) == {"gated": True, "checksums": {"a.txt": "abc"}}
    (tmp_path / PROVENANCE_FILE).write_text("gated: false\n")
    assert read_provenance(tmp_path) == {"gated": False}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "{} holds no keys and values"),
        (b"- a", "{} holds no keys and values"),
        (b"a: [", "{} is not valid YAML"),
        (b"a: \xff", "{} is not valid YAML"),
        (b"checksums: [a]", "'checksums' in {} are no file names with SHA-256 sums"),
        (b"checksums:", "'checksums' in {} are no file names with SHA-256 sums"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / PROVENANCE_FILE
    file.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_provenance(tmp_path)
    assert str(caught.value) == f"{words.format(file)}; restore it, or remove it from a set of your own."


def test_a_folder_in_place_of_the_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / PROVENANCE_FILE).mkdir()
    with pytest.raises(UserError, match=r"provenance\.yaml cannot be read: is a directory; restore it"):
        read_provenance(tmp_path)


def test_a_signature_is_for_exactly_this_content() -> None:
    content = {"gated": True, "checksums": {"a.txt": "abc"}}
    signed = sign_provenance(content)
    assert signed.keys() == {"gated", "checksums", "signature"} and signed["signature"]
    assert is_own_provenance(signed)
    assert not is_own_provenance(content)
    assert not is_own_provenance({**signed, "gated": False})
    assert not is_own_provenance({**signed, "more": 1})


def test_files_that_were_changed_removed_or_added_are_named_in_order(tmp_path: Path) -> None:
    for name in ("same.txt", "changed.txt", "added.txt", "extra.txt"):
        (tmp_path / name).write_text(name)
    checksums = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("same.txt", "removed.txt")}
    provenance = {"checksums": {**checksums, "changed.txt": "0" * 64}}
    present = ["same.txt", "changed.txt", "added.txt"]
    assert find_edited_files(tmp_path, provenance, present) == ("added.txt", "changed.txt", "removed.txt")
    assert find_edited_files(tmp_path, {"checksums": {"same.txt": checksums["same.txt"]}}, ["same.txt"]) == ()
    assert find_edited_files(tmp_path, {"gated": True}, present) == ()
    assert find_edited_files(tmp_path, {"checksums": {}}, ["missing.txt"]) == ("missing.txt",)
