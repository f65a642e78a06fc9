"""Tab completion: what Hydra answers, and the bash function that asks it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.command import run_command
from eval.cli.paths import PROJECT_ROOT
from eval.run import task

MODELS = sorted(f"model={file.stem}" for file in (PROJECT_ROOT / "conf" / "model").glob("*.yaml"))
FUNCTION = PROJECT_ROOT / "eval" / "completion.bash"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("model=", MODELS),
        ("model=off", ["model=offline"]),
        ("experiment=offline model.call", ["model.call_deadline_seconds="]),
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


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["eval/run.py", "model="], MODELS),
        (["eval/run.py", "experiment=offline", "model.call"], ["model.call_deadline_seconds="]),
        (["eval/doctor.py", "model=off"], ["model=offline"]),
        (["eval/serve.py", "system=b"], ["system=bos"]),
        (["eval/ask.py", 'What "is [2 + 3?', "model=off"], ["model=offline"]),
        (["eval/list_runs.py", "state=c"], ["state=complete", "state=crashed"]),
        (["eval/list_runs.py", "cl"], ["clean"]),
        (["other.py", "model="], []),
    ],
)
def test_the_bash_function_completes_this_projects_commands_alone(
    words: list[str], expected: list[str], tmp_path: Path
) -> None:
    """`other.py` would say so if it were started; the words are given as bash gives them when Tab is pressed."""
    script = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mas_harness; echo "${COMPREPLY[@]}" """
    (tmp_path / "other.py").write_text("print('started')")
    command = ["bash", "--norc", "-c", script, "bash", str(FUNCTION), sys.executable, *words]
    folder = tmp_path if words[0] == "other.py" else PROJECT_ROOT
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == expected
