"""Tab completion: what Hydra answers, and the bash function that asks it."""

import sys

import pytest

from eval.cli.command import run_command
from eval.cli.paths import PROJECT_ROOT
from eval.run import task

MODELS = sorted(f"model={file.stem}" for file in (PROJECT_ROOT / "conf" / "model").glob("*.yaml"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("model=", MODELS),
        ("model=off", ["model=offline"]),
        ("experiment=offline model.see", ["model.seed="]),
        ("-m model=off", ["model=offline"]),
    ],
)
def test_a_completion_query_is_answered_by_the_command(
    line: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.setenv("COMP_LINE", f"python eval/run.py {line}")
    monkeypatch.setattr(sys, "argv", ["eval/run.py", "-sc", "query=bash"])
    assert run_command(task, "eval") == 0
    assert capsys.readouterr().out.split() == expected
