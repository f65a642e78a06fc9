"""The HTTP system over a real server: what goes over the wire, what comes back, and how failures are told apart."""

import base64
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eval.execution.failure import describe_failure
from mas.runtime.errors import AgentReplyError, AgentUnavailableError, UserError
from mas.runtime.trace import Trace, record_trace
from mas.systems.external.system import HttpSystem
from mas.tools.settings import ToolSettings
from tests.patience import PATIENCE_SECONDS
from tests.servers.answering_agent import Raw, answering_agent

FIVE = {"answer": "5", "reasoning_trace": "2 + 3"}


@contextmanager
def opened(system: HttpSystem) -> Iterator[Any]:
    """What it needs for a run. It has no service to do without, and so nothing to say."""
    said: list[str] = []
    with system.open_resources(ToolSettings(), said.append) as resources:
        assert said == []
        yield resources


@contextmanager
def program(url: str, **settings: Any) -> Iterator[Any]:
    system = HttpSystem(url, **settings)
    system.check()
    with opened(system) as resources:
        yield system.build(None, None, resources)  # type: ignore[arg-type]


def test_a_question_goes_out_as_json_and_the_answer_comes_back() -> None:
    with answering_agent(lambda body: {**FIVE, "pages": [3]}) as agent, program(agent.url) as asked:
        with record_trace(Trace("thread-1")) as trace:
            prediction = asked(question="What is 2 + 3? \ud83d")
        assert agent.bodies == [{"question": "What is 2 + 3? ?", "file": None, "thread_id": "thread-1"}]
        assert "authorization" not in agent.headers[0]
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("5", "2 + 3")
    assert prediction.state["reply"] == {"pages": [3]}
    assert trace.state == prediction.state
    assert [(each.kind, each.name, each.error) for each in trace.spans] == [("agent", "http", None)]


def test_the_file_goes_along_by_its_bare_name(tmp_path: Path) -> None:
    file = tmp_path / "Größe.bin"
    file.write_bytes(bytes(range(256)))
    with answering_agent(lambda body: FIVE) as agent, program(agent.url) as asked:
        asked(question="?", file=file)
        sent = agent.bodies[0]["file"]
    assert sent.keys() == {"name", "content_base64"}
    assert (sent["name"], base64.b64decode(sent["content_base64"])) == ("Größe.bin", file.read_bytes())


def test_the_header_is_sent_and_counts_as_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_AGENT", "Bearer token-12345678 ")
    with answering_agent(lambda body: FIVE) as agent, program(agent.url, headers_env="MY_AGENT") as asked:
        asked(question="?")
        assert agent.headers[0]["authorization"] == "Bearer token-12345678"
        assert set(HttpSystem(agent.url, headers_env="MY_AGENT").secrets()) == {
            "Bearer token-12345678",
            "token-12345678",
        }
    assert HttpSystem("http://127.0.0.1").secrets() == []


FAILURES: dict[str, tuple[dict[str, Any] | Raw, type[Exception], str, list[str]]] = {
    "500": (Raw("out of memory", 500), AgentUnavailableError, "infrastructure", ["HTTP 500", "out of memory"]),
    "503": (Raw("", 503), AgentUnavailableError, "infrastructure", ["HTTP 503", "(no text)"]),
    "429": (Raw("slow down", 429), AgentUnavailableError, "infrastructure", ["HTTP 429"]),
    "dropped": (Raw(drop=True), AgentUnavailableError, "infrastructure", ["cannot be reached"]),
    "slow": (Raw(wait_seconds=1.5), AgentUnavailableError, "infrastructure", ["0.5 s", "system.timeout_seconds"]),
    "400": (Raw("no such\nfield " + "x" * 500, 400), AgentReplyError, "internal", ["HTTP 400", "no such field", "…"]),
    "401": (Raw("who?", 401), AgentReplyError, "internal", ["HTTP 401"]),
    "moved": (Raw("", 302, headers={"Location": "/"}), AgentReplyError, "internal", ["HTTP 302"]),
    "created": (Raw("{}", 201), AgentReplyError, "internal", ["HTTP 201", "expected 200"]),
    "text": (Raw("five"), AgentReplyError, "internal", ["something else than JSON", "five"]),
    "no UTF-8": (Raw(b'{"answer": "\xff"}'), AgentReplyError, "internal", ["something else than JSON"]),
    "nested": (Raw("[" * 100_000), AgentReplyError, "internal", ["something else than JSON"]),
    "list": (Raw("[1]"), AgentReplyError, "internal", ["something else than JSON", "'answer'"]),
    "empty": (Raw(""), AgentReplyError, "internal", ["something else than JSON", "(no text)"]),
    "no answer": ({"result": "5"}, AgentReplyError, "internal", ["'answer'", "found: result"]),
    "null": ({"answer": None}, AgentReplyError, "internal", ["no answer"]),
    "broken gzip": (
        Raw("this is no gzip stream", headers={"Content-Encoding": "gzip"}),
        AgentReplyError,
        "internal",
        ["cannot be read", "DecodingError"],
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_one_sentence_of_the_right_class(failure: str) -> None:
    response, error, kind, words = FAILURES[failure]
    seconds = 0.5 if failure == "slow" else PATIENCE_SECONDS
    with answering_agent(lambda body: response) as agent, program(agent.url, timeout_seconds=seconds) as asked:
        with record_trace(Trace("t")) as trace, pytest.raises(error) as caught:
            asked(question="?")
        assert len(agent.bodies) == 1, "nothing is asked twice"
    described = describe_failure(caught.value, trace)
    assert (described.kind, described.component) == (kind, "http")
    assert [word for word in words if word not in described.message] == [], described.message
    assert "\n" not in described.message


def test_an_agent_that_went_away_is_unavailable() -> None:
    with answering_agent(lambda body: FIVE) as agent, program(agent.url) as asked:
        pass
    with opened(HttpSystem(agent.url)) as resources:
        asked = HttpSystem(agent.url).build(None, None, resources)  # type: ignore[arg-type]
        with pytest.raises(AgentUnavailableError, match="cannot be reached"):
            asked(question="?")


def closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


MISTAKES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "no URL": ("localhost", {}, ["system.url=localhost is not a URL", "http://127.0.0.1:8080/answer"]),
    "closed": ("http://127.0.0.1:{port}/x", {}, ["no agent answers at system.url=http://127.0.0.1", "start it"]),
    "password": ("http://me:Pa55word@127.0.0.1:1/x", {}, ["system.url", "environment variable"]),
    "no time": ("http://127.0.0.1:{port}/x", {"timeout_seconds": 0}, ["system.timeout_seconds=0", "more than 0"]),
    "unset": ("http://127.0.0.1:{port}/x", {"headers_env": "NO_SUCH_VARIABLE"}, ["NO_SUCH_VARIABLE is not set"]),
    "two lines": ("http://127.0.0.1:{port}/x", {"headers_env": "TWO_LINES"}, ["TWO_LINES", "one line of ASCII"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_settings_is_one_sentence(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWO_LINES", "Bearer token\nX-Other: 1")
    url, settings, words = MISTAKES[mistake]
    with pytest.raises(UserError) as caught:
        HttpSystem(url.format(port=closed_port()), **settings).check()
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message and message.endswith(".")
    assert "Pa55" not in message and "X-Other" not in message
