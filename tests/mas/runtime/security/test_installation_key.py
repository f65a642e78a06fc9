"""The key of this installation."""

from pathlib import Path

import pytest

from mas.runtime.installation_key import VARIABLE, is_signed, sign


def test_without_a_folder_to_write_to_there_is_a_key_until_the_command_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv(VARIABLE, "")
    signature = sign("run", {"limit": 3})
    assert is_signed("run", {"limit": 3}, signature) and not is_signed("run", {"limit": 4}, signature)
    assert capsys.readouterr().err.count("cannot be stored") == 1
