"""Canaries: the values of the configured secrets are in nothing that a run leaves behind, in every tracking mode.

The model's server repeats the key: in a tool call, so that it comes back in the tool's error, and in its refusal of the
last question. The MLflow server's password stands in the environment and in the address as it is typed.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.eval.command_line import question, write_questions
from tests.mlflow_runs import Evaluation, sync
from tests.report_file import ReportFile
from tests.servers.fixed_llm import reply_to
from tests.servers.mlflow_server import ADMIN, PASSWORD, running_mlflow
from tests.servers.postgres import running_postgres, why_not

KEY = "canary-model-key-5f0c1d"
TOKEN = "canary-token-91b7e2"
LAST = "Which question is refused?"
ENVIRONMENT = {"CANARY_KEY": KEY, "OPENAI_API_KEY": KEY, "MLFLOW_TRACKING_TOKEN": TOKEN}
CANARIES = (KEY, TOKEN, PASSWORD, base64.b64encode(f"{ADMIN}:{PASSWORD}".encode()).decode())

pytestmark = pytest.mark.slow


class Repeating(BaseHTTPRequestHandler):
    """A model that says its caller's key wherever it can."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Tests print nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if LAST.encode() in body:
            refusal = {"error": {"message": f"Incorrect API key provided: {key}.", "code": "invalid_api_key"}}
            return self._send(401, json.dumps(refusal).encode())
        return self._send(200, reply_to(body).replace(b'6 * 7 + 0\\"', f'{key} *\\"'.encode()))

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def repeating_llm() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Repeating) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def run(folder: Path, *tracking: str) -> str:
    """Run, and send again; what the commands printed."""
    rows = [question("q1", "What is 6 * 7?", "42"), question("q2", LAST, "none")]
    write_questions(folder / "questions", *rows)
    options = ("data=jsonl", f"data.path={folder / 'questions'}", "run.concurrency=1", "model.api_key_env=CANARY_KEY")
    with repeating_llm() as url:
        finished = Evaluation.started(folder / "run", url, *options, *tracking, environment=ENVIRONMENT).ended()
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


def leaks(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    contents = {path: path.read_bytes() for path in files}
    packed = {path / "unpacked": ReportFile(path).text.encode() for path in files if path.name == "report.html"}
    held = (contents | packed).items()
    return [f"{path}: {canary}" for path, content in held for canary in CANARIES if canary.encode() in content]


def in_text(text: str) -> list[str]:
    return [canary for canary in CANARIES if canary in text]


def test_nothing_is_left_in_the_folder_or_on_the_screen_without_tracking(tmp_path: Path) -> None:
    assert not in_text(run(tmp_path, "tracking=off"))
    assert leaks(tmp_path) == []


def test_nothing_is_left_in_the_local_store(tmp_path: Path) -> None:
    assert not in_text(run(tmp_path, "tracking=local", f"tracking.folder={tmp_path / 'store'}"))
    assert leaks(tmp_path) == []


def test_nothing_is_left_on_the_server_or_its_database(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    with (
        running_postgres() as postgres,
        running_mlflow(
            tmp_path / "server", postgres.new_database("mlflow"), postgres.new_database("accounts")
        ) as server,
    ):
        address = server.url.replace("://", f"://{ADMIN}:{PASSWORD}@")
        printed = run(tmp_path, "tracking=server", f"tracking.uri={address}")
        dumps = postgres.dump("mlflow") + postgres.dump("accounts")
    assert not in_text(printed)
    assert "q1" in dumps
    assert not in_text(dumps)
    assert leaks(tmp_path) == []
