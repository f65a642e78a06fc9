"""The installation's key is made once, for its owner alone, by one of several processes at once."""

import hashlib
import hmac
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.runtime.errors import UserError
from mas.runtime.installation_key import (
    VARIABLE,
    compute_mac,
    find_key_file,
    is_signed,
    list_installation_secrets,
    read_installation_key,
    sign,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_it_is_made_once_and_only_its_owner_may_read_it(state: Path) -> None:
    key = read_installation_key()
    path = state / "mas-harness" / "key"
    assert (len(key), path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (64, 0o600, 0o700)
    assert read_installation_key() == key == path.read_bytes()
    assert [each.name for each in path.parent.iterdir()] == ["key"]


def test_processes_that_make_it_at_once_agree(state: Path) -> None:
    code = "import mas.runtime.installation_key as k; print(k.read_installation_key().decode())"
    started = [
        subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT_ROOT, stdout=subprocess.PIPE) for _ in range(6)
    ]
    assert len({each.communicate()[0] for each in started}) == 1


def test_the_environment_overrides_it_and_no_file_is_made(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sixteen letters!")
    assert read_installation_key() == b"sixteen letters!"
    assert list(state.iterdir()) == []
    monkeypatch.setenv(VARIABLE, "fifteen letters")
    with pytest.raises(UserError, match="MAS_HARNESS_KEY has 15 characters; give it at least 16"):
        read_installation_key()


def test_a_relative_state_folder_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", "/home/ann")
    assert find_key_file() == Path("/home/ann/.local/state/mas-harness/key")


def test_a_key_that_others_may_read_or_that_is_damaged_is_refused(state: Path) -> None:
    (state / "mas-harness").mkdir()
    path = state / "mas-harness" / "key"
    path.write_text("0" * 64)
    path.chmod(0o640)
    with pytest.raises(UserError, match=f"others may read the installation's key; run: chmod 600 {path}"):
        read_installation_key()
    path.chmod(0o600)
    path.write_text("")
    with pytest.raises(UserError, match="is damaged; delete the file"):
        read_installation_key()


def test_a_folder_that_cannot_be_written_is_a_mistake_with_its_way_out(state: Path) -> None:
    (state / "mas-harness").write_text("a file")
    with pytest.raises(UserError, match=r"cannot be read or made .* XDG_STATE_HOME .* MAS_HARNESS_KEY"):
        read_installation_key()


def test_a_code_depends_on_key_purpose_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = set()
    for key in ("key of one machine", "key of another one"):
        monkeypatch.setitem(os.environ, VARIABLE, key)
        codes |= {compute_mac(purpose, text) for purpose in ("a", "b") for text in ("x", "y\ud800")}
    assert len(codes) == 8 and {len(code) for code in codes} == {64}


def test_a_code_is_an_hmac_of_purpose_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "key of this machine")
    expected = hmac.new(b"key of this machine", "mark\0é".encode(), hashlib.sha256).hexdigest()
    assert compute_mac("mark", "é") == expected


def test_only_what_was_signed_is_signed() -> None:
    content = {"b": [1, "é"], "a": None}
    signature = sign("run", content)
    assert len(signature) == 64
    assert is_signed("run", {"a": None, "b": [1, "é"]}, signature), "the order of keys says nothing"
    for kind, other, given in (
        ("sweep", content, signature),
        ("run", {**content, "a": 0}, signature),
        ("run", {"b": ["é", 1], "a": None}, signature),
        ("run", content, signature[:-1]),
        ("run", content, signature.upper() if signature.upper() != signature else "0" * 64),
        ("run", content, "ü"),
        ("run", content, ""),
        ("run", content, None),
        ("run", content, signature.encode()),
    ):
        assert is_signed(kind, other, given) is False


def test_without_a_key_nothing_is_signed_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    signature = sign("run", 1)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(VARIABLE, "too short")
    assert sign("run", 1) == "" and not is_signed("run", 1, signature) and not is_signed("run", 1, "")
    assert "the run is not signed, so resuming it will ask for run.trust=true: MAS_HARNESS_KEY has 9 characters" in (
        " ".join(capsys.readouterr().err.split())
    )


def test_a_key_in_a_file_has_as_many_characters_as_one_in_the_environment(state: Path) -> None:
    for name, text, is_fit in (("long", " sixteen-letters!\n", True), ("short", "fifteen-letters", False)):
        path = state / name / "mas-harness" / "key"
        path.parent.mkdir(parents=True)
        path.touch(0o600)
        path.write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(state / name))
            if is_fit:
                assert read_installation_key() == b"sixteen-letters!"
            else:
                with pytest.raises(UserError, match="is damaged; delete the file, and another key is made"):
                    read_installation_key()


def test_the_key_is_among_the_secrets_once_there_is_one(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list_installation_secrets() == []
    assert not (state / "mas-harness").exists()
    key = read_installation_key().decode()
    assert list_installation_secrets() == [key]
    monkeypatch.setenv(VARIABLE, "another key than that one")
    assert list_installation_secrets() == ["another key than that one"]


def test_a_key_that_another_process_made_meanwhile_is_the_one(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_late(path: Path, target: Path) -> None:
        path.touch(0o600)
        path.write_text("made by the other process")
        raise FileExistsError(path)

    monkeypatch.setattr(Path, "hardlink_to", be_late)
    assert read_installation_key() == b"made by the other process"
    assert [each.name for each in (state / "mas-harness").iterdir()] == ["key"]


def test_the_reason_why_a_key_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        with pytest.raises(UserError, match=r"cannot be read or made \(\[Errno 28\] No space left on device\)"):
            read_installation_key()
