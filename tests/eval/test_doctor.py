"""What the doctor says of configurations that can run and of those that cannot, in this process and on loopback."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eval import doctor
from eval.cli.paths import PROJECT_ROOT
from eval.config.tracking import LocalTracking, NoTracking
from eval.workflows.checks import configuration, installation, machine
from eval.workflows.checks.installation import MISSING, OK, WARNING, Finding
from eval.workflows.checks.machine import check_isolation
from mas.tools.sandbox import deno
from tests.eval.command_line import dataset as questions
from tests.eval.command_line import question, without_secrets, write_questions
from tests.servers.one_answer import refusal, server_that_answers
from tests.servers.running import RunningServer

Doctor = Callable[..., tuple[int, list[str]]]
SECRET = "sk-this-must-never-be-shown"
SAMPLE = ("data=sample", "tracking=off")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Exit code and lines; without keys and without a Hugging Face token file.

    Files and isolation are not tried: it takes seconds to read files of every kind and to run code.
    """
    monkeypatch.setattr(machine, "check_readers", lambda _: [Finding("files", OK, "not tried")])
    monkeypatch.setattr(machine, "check_isolation", lambda: Finding("isolation", OK, "not tried"))
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
def test_the_offline_configuration_can_run_and_nothing_heavy_is_imported_to_say_so(
    clean_environment: dict[str, str],
) -> None:
    code = (
        "import sys; from eval.doctor import main;"
        "code = main(['experiment=offline', 'tracking=off', 'limit=3']);"
        "heavy = {'dspy', 'mlflow', 'datasets', 'openai', 'pandas', 'langgraph', 'tavily', 'mcp'};"
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(
        command, cwd=PROJECT_ROOT, env=clean_environment, capture_output=True, text=True, timeout=60, check=True
    )
    *lines, verdict, found = ended.stdout.splitlines()
    assert (verdict, found) == ("Can run.", "0 []")
    assert not any(line.startswith("missing") for line in lines)
    assert marked(lines, "model") == ["ok model offline: simulated, part of the package"]
    (data,) = marked(lines, "data")
    assert data.startswith("ok data sample, split val: ") and data.endswith(" questions, 3 selected")
    (tried, *_, sounds, unread) = marked(lines, "files")
    assert tried.startswith("ok")
    assert all(kind in tried.partition("tried: ")[2] for kind in (".xlsx", ".pdf", ".epub", ".png"))
    assert "listening needs a model" in sounds
    assert unread.startswith("warning") and "a video" in unread


def test_what_the_default_configuration_lacks_is_named_with_what_to_do(run: Doctor) -> None:
    code, lines = run()
    assert code == 1
    assert marked(lines, "key") == [
        "missing key OPENAI_API_KEY is not set (model.api_key_env)",
        "warning key HF_TOKEN is not set (data.token_env)",
    ]
    assert marked(lines, "model")[0].startswith("missing model model=gpt-4o-mini needs an API key")
    assert marked(lines, "data")[0].startswith("missing data GAIA could not be fetched")
    assert any(line.strip() == "→ put OPENAI_API_KEY=… into .env" for line in lines)
    assert lines[-1] == "Cannot run: 3 missing."


def test_warnings_alone_do_not_change_the_exit_code(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "check_isolation", check_isolation)
    monkeypatch.setattr(deno, "_packaged", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    code, lines = run("experiment=offline", "tracking=off")
    assert code == 0
    assert [marked(lines, name)[-1].split()[0] for name in ("isolation", "browser", "ocr")] == [WARNING] * 3


def test_a_mistake_in_the_options_is_one_line_and_the_machine_is_still_looked_at(run: Doctor) -> None:
    for mistake, words in (
        ("model=nope", "model=nope is not known; choose one of: "),
        ("model=null", "model=null is not possible: model is a config group; choose one of: "),
        ("data=jsonl", "data.path has no value"),
        ("limit=0", "limit=0 is out of range"),
        ("what", "'what' is not an option"),
    ):
        code, lines = run(mistake)
        assert code == 1
        assert marked(lines, "configuration")[0].startswith(f"missing configuration {words}")
        assert marked(lines, "ocr") and not marked(lines, "model")


def test_an_unknown_flag_is_told_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--deeper"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: unrecognized arguments: --deeper; usage: python eval/doctor.py [--deep]")


def endpoint(base_url: str, name: str, *more: str) -> list[str]:
    return ["model=openai_compatible", f"model.base_url={base_url}", f"model.name={name}", *SAMPLE, *more]


def test_a_server_that_has_the_model_is_fine(run: Doctor, llm_server: RunningServer) -> None:
    code, lines = run(*endpoint(llm_server.base_url, "perfect"))
    assert code == 0
    assert marked(lines, "model") == [f"ok model {llm_server.base_url} has perfect"]


@pytest.mark.parametrize("more", [["model.name=other"], ["model.name=perfect", "system.agents.expert.model=other"]])
def test_a_server_without_one_of_the_models_is_a_warning(
    run: Doctor, llm_server: RunningServer, more: list[str]
) -> None:
    code, lines = run("model=openai_compatible", f"model.base_url={llm_server.base_url}", *SAMPLE, *more)
    assert code == 0
    assert marked(lines, "model") == [f"warning model {llm_server.base_url} does not list other; it has perfect"]


def test_a_closed_port_is_missing(run: Doctor) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        code, lines = run(*endpoint(f"http://127.0.0.1:{free.getsockname()[1]}/v1", "m"))
    assert code == 1
    assert marked(lines, "model")[0].startswith("missing model no model server answers at model.base_url=http://127")


@pytest.mark.parametrize(
    ("status", "body", "expected", "words"),
    [
        (401, refusal(f"Incorrect API key: {SECRET}"), 1, "refuses the key (HTTP 401)"),
        (404, refusal("no such route"), 0, "answers, but does not list its models (HTTP 404)"),
        (200, {"models": "none of this"}, 0, "answers, but does not list its models (TypeError)"),
        (200, {"data": []}, 0, "does not list m; it has none"),
    ],
)
def test_a_servers_answer_to_the_listing_decides(
    run: Doctor, monkeypatch: pytest.MonkeyPatch, status: int, body: dict[str, object], expected: int, words: str
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with server_that_answers(status, body) as base_url:
        code, lines = run(*endpoint(base_url, "m", "model.api_key_env=MY_KEY"))
    assert code == expected
    assert words in marked(lines, "model")[0]
    assert marked(lines, "key") == ["ok key MY_KEY is set (model.api_key_env)"]
    assert SECRET not in "\n".join(lines)


def test_a_server_that_says_nothing_is_given_up_after_the_timeout(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, lines = run(*endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "m"))
    assert code == 1
    assert "does not answer: " in marked(lines, "model")[0]


def test_local_questions_are_read_and_counted(run: Doctor, tmp_path: Path) -> None:
    rows = [question("1", "a?"), question("2", "b?")]
    code, lines = run("model=offline", *questions(tmp_path / "data", *rows), "ids=[2]", "tracking=off")
    assert code == 0
    (line,) = marked(lines, "data")
    assert line.startswith("ok data jsonl, split all: 2 questions, 1 selected; unscored, for there is no column")
    bad = write_questions(tmp_path / "bad", rows[0], "{")
    code, lines = run("model=offline", "data=jsonl", f"data.path={bad}", "tracking=off")
    assert code == 1
    assert "line 2" in marked(lines, "data")[0]
    code, lines = run("model=offline", "data=jsonl", f"data.path={bad}", "tracking=off", "data.on_bad_row=skip")
    assert code == 0
    (line,) = marked(lines, "data")
    assert "1 questions, 1 selected" in line and "1 bad rows skipped: " in line


def test_the_hub_is_asked_for_gaia_alone(run: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setattr(configuration, "TIMEOUT_SECONDS", 2.0)
    with server_that_answers(200, {}) as base_url:
        monkeypatch.setenv("HF_ENDPOINT", base_url)
        code, lines = run("model=offline", "tracking=off")
    assert code == 0
    assert marked(lines, "network") == [f"ok network {base_url} answers"]  # HTTP 501 to HEAD is an answer, too
    assert SECRET not in "\n".join(lines)
    code, lines = run("model=offline", "tracking=off")
    assert code == 0
    assert marked(lines, "network")[0].startswith(f"warning network {base_url} does not answer")
    assert not marked(run("experiment=offline")[1], "network")


def test_a_used_run_folder_keeps_the_configuration_from_running(run: Doctor, tmp_path: Path) -> None:
    (tmp_path / "run.db").write_bytes(b"no database")
    code, lines = run("experiment=offline", "tracking=off", f"run.dir={tmp_path}")
    assert code == 1
    assert "already holds a run" in marked(lines, "run")[0]


def test_python_and_packages(tmp_path: Path) -> None:
    assert installation.check_python().state == OK
    assert [installation.check_python((3, minor, 1)).state for minor in (10, 11, 13, 14)] == [
        MISSING,
        OK,
        OK,
        MISSING,
    ]
    assert installation.check_packages(PROJECT_ROOT / "pyproject.toml").state == OK
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text('[project]\nname = "pytest"\ndependencies = ["rich[jupyter]>=1", "no-such-thing", "PyYAML"]\n')
    found = installation.check_packages(pyproject)
    assert (found.state, found.what) == (MISSING, "1 of 4 missing: no-such-thing")
    pyproject.write_text('[project]\nname = "pytest"\ndependencies = ["rich<1", "PyYAML>1"]\n')
    found = installation.check_packages(pyproject)
    assert found.state == WARNING and found.what.endswith("(wanted: rich<1)")


def test_without_any_package_the_doctor_still_says_what_to_do() -> None:
    """`-S`: no site-packages, as with the system's Python before `make setup`."""
    command = [sys.executable, "-S", str(PROJECT_ROOT / "eval" / "doctor.py"), "experiment=offline"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "missing  packages" in ended.stdout and "→ make setup" in ended.stdout


def test_programs_are_looked_for_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("chromium", "tesseract"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [check().state for check in (machine.check_browser, machine.check_ocr)] == [OK, OK]


def test_disk_and_mlflow_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.check_disk(tmp_path / "not" / "yet").state == OK
    assert list(tmp_path.iterdir()) == []
    assert machine.check_disk(Path("/proc/self/run")).state == MISSING
    monkeypatch.setattr(machine, "MIN_FREE_BYTES", 10**18)
    assert machine.check_disk(tmp_path).state == WARNING
    assert machine.check_mlflow_store(NoTracking()).state == OK
    assert "not there yet" in machine.check_mlflow_store(LocalTracking(folder=str(tmp_path))).what
    (tmp_path / "mlflow.db").write_text("this is no database, however long it may be")
    assert machine.check_mlflow_store(LocalTracking(folder=str(tmp_path))).state == WARNING


def test_a_finding_is_a_line_and_its_remedy_another() -> None:
    assert str(Finding("ocr", OK, "there")) == "ok       ocr            there"
    assert str(Finding("ocr", WARNING, "none", "get it")) == f"warning  ocr            none\n{' ' * 24}→ get it"
