"""What the doctor says of configurations that can run and of those that cannot, in this process and on loopback."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eval import doctor
from eval.cli.paths import PROJECT_ROOT
from eval.doctor import OK, Finding
from tests.eval.command_line import without_secrets
from tests.process import finish
from tests.servers.running import RunningServer

Doctor = Callable[..., tuple[int, list[str]]]
SECRET = "sk-this-must-never-be-shown"
SAMPLE = ("data=sample", "tracking=off")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Exit code and lines; without keys and without a Hugging Face token file. Isolation is not tried."""
    monkeypatch.setattr(doctor, "check_isolation", lambda: Finding("isolation", OK, "not tried"))
    for name, value in {**without_secrets({}), "HF_HOME": str(tmp_path / "hugging-face")}.items():
        monkeypatch.setenv(name, value)

    def command(*arguments: str) -> tuple[int, list[str]]:
        code = doctor.main(list(arguments))
        out, err = capsys.readouterr()
        assert err == ""
        return code, out.splitlines()

    return command


def marked(lines: list[str], name: str) -> list[str]:
    """The lines about one subject, columns made single spaces."""
    return [" ".join(line.split()) for line in lines if line.split()[1:2] == [name]]


@pytest.mark.slow
def test_the_offline_configuration_can_run_and_nothing_heavy_is_imported_to_say_so(tmp_path: Path) -> None:
    code = (
        "import sys; from eval.doctor import main;"
        "code = main(['experiment=offline', 'tracking=off', 'limit=3']);"
        "heavy = {'dspy', 'mlflow', 'datasets', 'openai', 'pandas', 'langgraph', 'tavily', 'mcp'};"
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    *lines, verdict, found = finish(tmp_path, "-c", code, script="").out.splitlines()
    assert (verdict, found) == ("Can run.", "0 []")
    assert not any(line.startswith("missing") for line in lines)
    assert marked(lines, "model") == ["ok model offline: simulated, part of the package"]
    assert marked(lines, "scorer") == ["ok scorer GaiaScorer"] and marked(lines, "tracking") == [
        "ok tracking NoTracking"
    ]
    (data,) = marked(lines, "data")
    assert data.startswith("ok data sample, split val: ") and data.endswith(" questions, 3 selected")


def test_what_the_default_configuration_lacks_is_named_with_what_to_do(run: Doctor) -> None:
    code, lines = run()
    assert code == 1
    assert marked(lines, "model")[0].startswith("missing model model=gpt-4o-mini needs an API key")
    assert marked(lines, "data")[0].startswith("missing data GAIA could not be fetched")
    assert any(line.startswith("warning tools TAVILY_API_KEY is not set") for line in marked(lines, "tools"))
    assert lines[-1] == "Cannot run: 2 missing."


@pytest.mark.slow
def test_a_mistake_in_the_options_is_one_line_and_the_machine_is_still_looked_at(run: Doctor) -> None:
    for mistake, words in (
        ("model=nope", "model=nope is not known; choose one of: "),
        ("model=null", "a config group was given null, a number, true or false; name a choice"),
        ("data=jsonl", "data.path has no value"),
        ("limit=0", "limit=0 is out of range"),
        ("what", "'what' cannot be read"),
    ):
        code, lines = run(mistake)
        assert code == 1
        assert marked(lines, "configuration")[0].startswith(f"missing configuration {words}")
        assert marked(lines, "isolation") and not marked(lines, "model")


def endpoint(base_url: str, name: str, *more: str) -> list[str]:
    return ["model=openai_compatible", f"model.base_url={base_url}", f"model.name={name}", *SAMPLE, *more]


def test_a_server_that_listens_is_fine(run: Doctor, llm_server: RunningServer) -> None:
    code, lines = run(*endpoint(llm_server.base_url, "perfect"))
    assert code == 0
    assert marked(lines, "model") == ["ok model perfect"]
    assert marked(lines, "run") == ["ok run the configuration can run"]


def test_a_closed_port_is_missing(run: Doctor) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        code, lines = run(*endpoint(f"http://127.0.0.1:{free.getsockname()[1]}/v1", "m"))
    assert code == 1
    assert marked(lines, "model")[0].startswith("missing model no model server answers at model.base_url=http://127")


def test_the_value_of_a_key_is_not_shown(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    code, lines = run("model=offline", "tracking=off")
    assert code == 0
    assert marked(lines, "data")[0].endswith("access not tried")
    assert SECRET not in "\n".join(lines)


def test_without_any_package_the_doctor_says_what_to_do() -> None:
    """`-S`: no site-packages, as with the system's Python before `make setup`."""
    command = [sys.executable, "-S", str(PROJECT_ROOT / "eval" / "doctor.py"), "experiment=offline"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "is missing in" in ended.stderr and "run `make setup` once" in ended.stderr
