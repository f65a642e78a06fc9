"""Canaries: a run leaves the values of the configured secrets nowhere; on an MLflow server: `test_mlflow_server.py`.

The model's server repeats the key: in a tool call, so that it comes back in the tool's error, and in its refusal of the
last question. The MLflow server's password stands in the environment and in the address as it is typed.
"""

import base64
import json
from pathlib import Path

import pytest

from tests.eval.command_line import question, write_questions
from tests.mlflow_runs import model, sync
from tests.process import finish
from tests.report_file import ReportFile
from tests.servers.fixed_llm import reply_to
from tests.servers.loopback import Answer, Asked, LoopbackServer, answer_json, running
from tests.servers.mlflow_server import ADMIN, PASSWORD

KEY = "canary-model-key-5f0c1d"
TOKEN = "canary-token-91b7e2"
LAST = "Which question is refused?"
ENVIRONMENT = {"CANARY_KEY": KEY, "OPENAI_API_KEY": KEY, "MLFLOW_TRACKING_TOKEN": TOKEN}
CANARIES = (KEY, TOKEN, PASSWORD, base64.b64encode(f"{ADMIN}:{PASSWORD}".encode()).decode())

pytestmark = pytest.mark.slow


class RepeatingLlm(LoopbackServer):
    """A model that says its caller's key wherever it can."""

    def answer(self, asked: Asked) -> Answer:
        key = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if LAST.encode() in asked.body:
            refusal = {"message": f"Incorrect API key provided: {key}.", "code": "invalid_api_key"}
            return answer_json({"error": refusal}, 401)
        told = reply_to(asked.body).replace(b'6 * 7 + 0\\"', f'{key} *\\"'.encode())
        return Answer(told, headers={"Content-Type": "application/json"})


def run_with_secrets(folder: Path, *tracking: str) -> str:
    """Run, and send again; what the commands printed."""
    rows = [question("q1", "What is 6 * 7?", "42"), question("q2", LAST, "none")]
    write_questions(folder / "questions", *rows)
    options = ("data=jsonl", f"data.path={folder / 'questions'}", "run.concurrency=1", "model.api_key_env=CANARY_KEY")
    with running(RepeatingLlm()) as llm:
        url = f"{llm.base_url}/v1"
        finished = finish(folder / "run", *model(url), *options, *tracking, environment=ENVIRONMENT)
    assert finished.code == 3, finished.err
    told = json.dumps(finished.records["q1"])
    assert "***" in told, "the key has been repeated, and taken out"
    assert "Incorrect API key provided: ***" in finished.summary["stopped"]
    printed = finished.out + finished.err
    if tracking[0] != "tracking=off":
        synced = sync(folder / "run", *tracking, environment=ENVIRONMENT)
        assert synced.code == 0, synced.err
        printed += synced.out + synced.err
    return printed


def list_leaks(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    contents = {path: path.read_bytes() for path in files}
    packed = {path / "unpacked": ReportFile(path).text.encode() for path in files if path.name == "report.html"}
    held = (contents | packed).items()
    return [f"{path}: {canary}" for path, content in held for canary in CANARIES if canary.encode() in content]


def list_in_text(text: str) -> list[str]:
    return [canary for canary in CANARIES if canary in text]


def test_nothing_is_left_in_the_folder_or_on_the_screen_without_tracking(tmp_path: Path) -> None:
    assert not list_in_text(run_with_secrets(tmp_path, "tracking=off"))
    assert list_leaks(tmp_path) == []
