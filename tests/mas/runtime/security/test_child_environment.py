"""What a child process gets of the environment, and that every program the product starts is given it by name."""

import pytest

from mas.runtime.security.child_environment import build_child_environment


def test_a_child_gets_its_path_and_what_is_named_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN", "TESSDATA_PREFIX"):
        monkeypatch.setenv(name, "value")
    monkeypatch.setenv("PATH", "/usr/bin")
    plain = build_child_environment()
    assert plain["PATH"] == "/usr/bin" and "value" not in plain.values()
    named = build_child_environment("TESSDATA_*", "MLFLOW_TRACKING_URI", PATH="/bin", OWN="1")
    assert named["PATH"] == "/bin" and named["OWN"] == "1"
    assert {name for name, value in named.items() if value == "value"} == {"TESSDATA_PREFIX", "MLFLOW_TRACKING_URI"}
