"""Canaries: no secret is in anything that a tuning run leaves behind or says; no gold answer where it could be learnt.

The model's server repeats its caller's key wherever it can: in tool calls, in what it reflects, and in its refusals.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from eval.runs.store import open_run, read_run_info
from tests.command import Finished, tuning_command
from tests.eval.command_line import question, write_questions
from tests.servers.fixed_llm import reply_to

pytestmark = pytest.mark.slow  # whole runs, or whole stores

KEY = "canary-model-key-5f0c1d"
PASSWORD = "canary-password-77e2"
IMPROVED = "IMPROVED"
ANYBODYS = rb"[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]"  # the server's reply to an unknown request, as JSON
GOLDS = [f"W{7301 + 37 * n}Q" for n in range(24)]  # two of three questions have 42, which the model says
ROWS = [
    question(f"q{n}", f"What is written on stone {n}?", "42" if n % 3 else GOLDS[n], Level=1 + n // 12)
    for n in range(24)
]
FEW = (
    "splits.sealed_level=2",
    "splits.train=0.5",
    "splits.val=0.5",
    "gate.epochs=1",
    "gate.looks=1",
    "shortlist.epochs=1",
)


class Repeating(BaseHTTPRequestHandler):
    """A finalizer that is right only with a reflected prompt, and a reflection that says the key."""

    protocol_version = "HTTP/1.1"
    refused = ""  # requests with that in them

    def log_message(self, *args: object) -> None:
        """Tests print nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.refused and self.refused.encode() in body:
            refusal = {"error": {"message": f"Incorrect API key provided: {key}.", "code": "invalid_api_key"}}
            return self._send(401, json.dumps(refusal).encode())
        if b"`new_instruction`" in body:
            text = f"[[ ## new_instruction ## ]]\\n{IMPROVED}. Say {key}.\\n\\n[[ ## completed ## ]]"
            return self._send(200, reply_to(b"").replace(ANYBODYS, text.encode()))
        reply = reply_to(body)
        if IMPROVED.encode() not in body:
            reply = reply.replace(rb"[[ ## final_answer ## ]]\n42", rb"[[ ## final_answer ## ]]\n41")
        return self._send(200, reply.replace(b"6 * 7", f"{key} * 7".encode()))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def repeating() -> Iterator[tuple[str, type[Repeating]]]:
    handler = type("Handler", (Repeating,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def tuned_at(url: str, place: Path, *overrides: str, patch: pytest.MonkeyPatch) -> Finished:
    patch.setenv("CANARY_KEY", KEY)
    data = write_questions(place / "data", *ROWS)
    model = ("system=gaia", "model=openai_compatible", f"model.base_url={url}/{KEY}/v1", "model.api_key_env=CANARY_KEY")
    tracking = ("tracking=server", f"tracking.uri=http://somebody:{PASSWORD}@127.0.0.1:9", "++tracking.wait_seconds=1")
    return tuning_command(
        place, *model, *tracking, *FEW, "data=jsonl", f"data.path={data}", "budget.metric_calls=30", *overrides
    )


def holding(place: Path, *texts: str, besides: tuple[str, ...] = ()) -> list[str]:
    """Files below the place that hold one of the texts."""
    files = [each for each in place.rglob("*") if each.is_file() and each.relative_to(place).parts[0] not in besides]
    return [str(each.relative_to(place)) for each in files if any(text.encode() in each.read_bytes() for text in texts)]


def test_a_run_that_publishes_holds_no_secret(
    repeating: tuple[str, type[Repeating]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = tuned_at(repeating[0], tmp_path, patch=monkeypatch)
    assert tuned.verdict["finish_reason"] == "improved", (tuned.out, tuned.err)
    assert f"{IMPROVED}. Say ***." in tuned.kept.texts["finalizer"], "else nothing was repeated"
    assert holding(tmp_path, KEY, PASSWORD) == []
    assert KEY not in tuned.out + tuned.err and PASSWORD not in tuned.out + tuned.err
    info = read_run_info(tuned.folder)
    typed = info.command or []
    assert not [each for each in typed if each.startswith("model.base_url=")], "to be given anew"
    assert [each for each in typed if each.startswith("tracking.uri=")] == ["tracking.uri=http://somebody@127.0.0.1:9"]
    for kept in (yaml.safe_load((tuned.folder / "config.yaml").read_text("utf-8")), info.config):
        assert kept["model"]["base_url"] == f"{repeating[0]}/***/v1"

    with_answers = ("run.db", "run.db-wal", "records.jsonl")
    assert holding(tuned.folder, *GOLDS, besides=with_answers) == []
    assert holding(tuned.shelf, *GOLDS) == []
    sealed = set(tuned.read("splits")["sealed"])
    with open_run(tuned.folder) as store:
        assert {each.sample_id for each in store.records() if each.target} == sealed, "the search's rows have no golds"
    splits = tuned.read("splits")
    assert {id for name in ("train", "val", "sealed") for id in splits[name]} == {row["task_id"] for row in ROWS}
    assert "stone" not in json.dumps(splits)


@pytest.mark.parametrize(
    ("refused", "code", "said"),
    [
        ("`new_instruction`", 1, "the model that rewrites prompts could not be asked"),
        ("What is written", 3, "refuses further requests"),
    ],
    ids=["reflection", "question"],
)
def test_a_refusal_that_repeats_the_key_is_told_without_it(
    repeating: tuple[str, type[Repeating]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
    code: int,
    said: str,
) -> None:
    url, handler = repeating
    handler.refused = refused
    tuned = tuned_at(url, tmp_path, patch=monkeypatch)
    assert tuned.code == code
    assert said in tuned.err and "Incorrect API key provided: ***." in tuned.err
    assert KEY not in tuned.out + tuned.err and PASSWORD not in tuned.out + tuned.err
    assert holding(tmp_path, KEY, PASSWORD) == []
