"""Attached pictures and sounds through the real command: a model in another process is right only if it got the bytes.

`python eval/run.py model=openai_compatible model.takes_images=true data=jsonl data.path=…`, in process.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mas.agents.media import MAX_BYTES
from tests.eval.command_line import EvalCommand, Finished, question, write_questions
from tests.file_bytes import m4a_bytes, picture_bytes, wav_bytes
from tests.servers.chat_request import read_request
from tests.servers.running import RunningServer
from tests.servers.seeing_llm import AGAIN, digest, media_in, seeing_llm

BOTH = ("model.takes_images=true", "model.takes_audio=true")
PICTURE = picture_bytes("PNG", ["Pier 412"])
SOUND = wav_bytes([440, 660])
TOOL_USERS = ["expert", "researcher"]
ASKED = "What does the attached file show or say?"


@pytest.fixture(scope="module")
def seeing() -> Iterator[RunningServer]:
    with seeing_llm() as server:
        yield server


@pytest.fixture
def server(seeing: RunningServer) -> RunningServer:
    seeing.reset()
    return seeing


def files(folder: Path, **given: bytes) -> list[str]:
    """Overrides for one question a file: `map_png=b"…"` is `map.png`; the answer is its digest."""
    named = {".".join(name.rsplit("_", 1)): data for name, data in given.items()}
    write_questions(folder, *(question(name, ASKED, digest(data), file_name=name) for name, data in named.items()))
    for name, data in named.items():
        (folder / name).write_bytes(data)
    return ["data=jsonl", f"data.path={folder}"]


def run(command: EvalCommand, server: RunningServer, *more: str) -> Finished:
    return command("model=openai_compatible", f"model.base_url={server.base_url}", *more)


def role(body: dict[str, Any]) -> str:
    return read_request(json.dumps(body).encode()).role


def seen_by(server: RunningServer) -> dict[str, list[list[tuple[str, bytes]]]]:
    """Agent → what was shown with each of its requests."""
    seen: dict[str, list[list[tuple[str, bytes]]]] = {}
    for body in server.requests():
        seen.setdefault(role(body), []).append(media_in(body))
    return seen


def observations(finished: Finished, name: str) -> str:
    """What the researcher was told by its tool."""
    return json.dumps(finished.records[name]["state"]["researcher_states"])


@pytest.mark.parametrize("native", ["true", "false"], ids=["native tool calls", "text tools"])
def test_what_only_the_bytes_tell_is_answered(
    native: str, tmp_path: Path, eval_command: EvalCommand, server: RunningServer
) -> None:
    given = files(tmp_path / "questions", map_png=PICTURE, memo_wav=SOUND)
    finished = run(eval_command, server, *given, *BOTH, f"model.native_tools={native}")
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0), finished.answers
    seen = seen_by(server)
    assert sorted(agent for agent, shown in seen.items() if any(shown)) == TOOL_USERS
    for agent in TOOL_USERS:
        assert all(len(shown) == 1 for shown in seen[agent]), "in each request, once"
        assert {("image/png", PICTURE), ("wav", SOUND)} == {each for (each,) in seen[agent]}
    assert "The picture itself is shown to you beside the request that names it." in observations(finished, "map.png")
    assert "The sound itself is given to you beside the request that names it." in observations(finished, "memo.wav")
    leaves_no_bytes(finished)


def leaves_no_bytes(finished: Finished) -> None:
    middles = [base64.b64encode(data)[300:340] for data in (PICTURE, SOUND)]
    kept = [path for path in finished.folder.rglob("*") if path.is_file()]
    assert {"records.jsonl", "run.db", "multi_agent_system.log"} <= {path.name for path in kept}
    for path in kept:
        data = path.read_bytes()
        assert not any(middle in data for middle in middles), path
    told = f"[{len(base64.b64encode(PICTURE))} characters of base64]"
    assert told in json.dumps(finished.records["map.png"]), "only that there was one"


def test_a_model_is_sent_what_it_takes_and_nothing_else(
    tmp_path: Path, eval_command: EvalCommand, server: RunningServer
) -> None:
    given = files(tmp_path / "questions", map_png=PICTURE, memo_wav=SOUND)
    finished = run(eval_command, server, *given, "model.takes_images=true")
    assert {name: record["score"] for name, record in finished.records.items()} == {"map.png": 1.0, "memo.wav": 0.0}
    assert "itself is" not in observations(finished, "memo.wav")


def test_what_cannot_be_sent_is_told_and_the_question_goes_on(
    tmp_path: Path, eval_command: EvalCommand, server: RunningServer
) -> None:
    large = PICTURE + bytes(MAX_BYTES)
    given = files(tmp_path / "questions", memo_m4a=m4a_bytes(7), large_png=large, plain_png=b"no picture at all\n")
    finished = run(eval_command, server, *given, *BOTH)
    assert (finished.code, finished.summary["accuracy"], finished.summary["n_error"]) == (0, 0.0, 0)
    assert not any(shown for each in seen_by(server).values() for shown in each)
    assert "wav and mp3 are sent to models, m4a is not." in observations(finished, "memo.m4a")
    assert f"it has {len(large)} bytes, and at most {MAX_BYTES} are sent." in observations(finished, "large.png")
    assert "itself is" not in observations(finished, "plain.png")


def test_the_request_after_an_unreadable_reply_has_it_as_well(tmp_path: Path, eval_command: EvalCommand) -> None:
    with seeing_llm(rambling=True) as server:
        finished = run(eval_command, server, *files(tmp_path / "questions", map_png=PICTURE), *BOTH)
        asked_again = [body for body in server.requests() if AGAIN.decode() in json.dumps(body)]
    assert (finished.summary["accuracy"], finished.summary["usage"]["retries"]) == (1.0, len(asked_again))
    assert {role(body) for body in asked_again} == set(TOOL_USERS)
    assert all(media_in(body) == [("image/png", PICTURE)] for body in asked_again)


@pytest.mark.slow
def test_a_resumed_run_knows_the_replies_to_its_pictures_again(tmp_path: Path, eval_command: EvalCommand) -> None:
    with seeing_llm(quota_at=7) as server:
        first = run(eval_command, server, *files(tmp_path / "questions", map_png=PICTURE), *BOTH)
        asked = [role(body) for body in server.requests()]
        assert (first.code, len(asked), set(TOOL_USERS) <= set(asked)) == (3, 7, True), asked
        assert eval_command(f"run.resume={first.folder}").code == 0
        again = [role(body) for body in server.requests()][7:]
    assert first.summary["accuracy"] == 1.0
    assert again == [asked[-1], *again[1:]], "it goes on with the request that was refused"
    assert "researcher" not in again
