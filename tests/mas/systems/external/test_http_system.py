"""The HTTP system over a real server: what goes over the wire, what comes back, and how failures are told apart."""

import asyncio
import base64
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eval.execution.failure import describe_failure
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import AgentReplyError, AgentUnavailableError, UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.trace import Trace, record_trace
from mas.system import Resources
from mas.systems.external.http_program import HttpProgram
from mas.systems.external.http_system import HttpSystem
from mas.tools.settings import ToolSettings
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
    "list": (Raw("[1]"), AgentReplyError, "internal", ["JSON list", "'answer'"]),
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
    with answering_agent(lambda body: response) as agent, program(agent.url, timeout_seconds=0.5) as asked:
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


def test_more_questions_run_at_once_than_httpx_allows_by_default() -> None:
    def slow(body: dict[str, Any]) -> Raw:
        return Raw(f'{{"answer": "{body["question"]}"}}', wait_seconds=0.5)

    async def all_of_them(asked: Any) -> list[str]:
        async with asyncio.timeout(20):
            predictions = await asyncio.gather(*(asked.acall(question=str(number)) for number in range(130)))
        return [prediction.final_answer for prediction in predictions]

    with answering_agent(slow) as agent, program(agent.url) as asked:
        assert run_blocking(all_of_them(asked)) == [str(number) for number in range(130)]
        assert len(agent.connections) == 130


def test_a_connection_is_used_again_by_copies_of_the_program_too() -> None:
    with answering_agent(lambda body: FIVE) as agent, program(agent.url) as asked:
        for each in (asked, asked.deepcopy(), asked):
            each(question="?")
        assert len(agent.connections) == 1


def test_the_client_is_closed_with_the_run_even_when_it_fails() -> None:
    with answering_agent(lambda body: FIVE) as agent:
        with pytest.raises(RuntimeError, match="stop"), opened(HttpSystem(agent.url)) as resources:
            raise RuntimeError("stop")
        assert resources.services["http_client"].is_closed


def closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


MISTAKES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "no URL": ("localhost", {}, ["system.url=localhost is not a URL", "http://127.0.0.1:8080/answer"]),
    "closed": ("http://127.0.0.1:{port}/x", {}, ["no agent answers at system.url=http://127.0.0.1", "start it"]),
    "password": ("http://me:secret@127.0.0.1:1/x", {}, ["system.url", "system.headers_env"]),
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
    assert "secret" not in message and "X-Other" not in message


def test_a_part_of_a_header_is_a_secret_from_eight_characters_on(monkeypatch: pytest.MonkeyPatch) -> None:
    system = HttpSystem("http://127.0.0.1", headers_env="MY_AGENT")
    for value, secrets in (
        ("12345678", ["12345678"]),
        ("1234567", []),
        ("Bearer 12345678", ["Bearer 12345678", "12345678"]),
        ("Bearer 1234567", ["Bearer 1234567"]),
        (" ", []),
    ):
        monkeypatch.setenv("MY_AGENT", value)
        assert system.secrets() == secrets
    assert (system.needs_model, system.model_names(), system.name, system.default_prompts) == (False, (), "http", None)


NOT_SENT = "the value of MY_AGENT cannot be sent as a header; expected one line of ASCII."


@pytest.mark.parametrize(
    ("url", "settings", "value", "message"),
    [
        ("", {"timeout_seconds": 0}, "k", "system.timeout_seconds=0 is out of range; expected more than 0."),
        ("", {"timeout_seconds": -0.5}, "k", "system.timeout_seconds=-0.5 is out of range; expected more than 0."),
        (
            "http://me@127.0.0.1/x",
            {"timeout_seconds": 0.001},
            "",
            "system.url holds a user name or password, which would be saved with the run; put the Authorization "
            "header into an environment variable and give that variable's name as system.headers_env.",
        ),
        (
            "http://127.0.0.1/x@y",
            {},
            "",
            "system.headers_env=MY_AGENT is not set; put the Authorization header's value, such as 'Bearer …', into "
            "that environment variable (or into .env).",
        ),
        ("http://127.0.0.1/x", {}, "Bearer ü", NOT_SENT),
        ("http://127.0.0.1/x", {}, "Bearer a\tb", NOT_SENT),
    ],
    ids=["no time", "less than none", "a name", "no header", "no ASCII", "a control character"],
)
def test_a_mistake_is_told_before_the_agent_is_looked_for(
    url: str, settings: dict[str, Any], value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_AGENT", value)
    with pytest.raises(UserError) as caught:
        HttpSystem(url, headers_env="MY_AGENT", **settings).check()
    assert str(caught.value) == message


def test_prompts_for_an_agent_without_any_are_refused(tmp_path: Path) -> None:
    prompts = PromptSet("mine", "http", {"planner": "Plan it."}, tmp_path)
    system = HttpSystem("http://127.0.0.1/x")
    resources = Resources(ToolSettings(), {"http_client": object()})
    with pytest.raises(ValueError, match=r"agents \['planner'\] of the prompt set 'mine'"):
        system.build(None, prompts, resources)  # type: ignore[arg-type]
    built = system.build(None, PromptSet("none", "http", {}, tmp_path), resources)  # type: ignore[arg-type]
    assert isinstance(built, HttpProgram)
    assert (built.name, built.url, built.timeout_seconds) == ("http", "http://127.0.0.1/x", 600.0)
    assert built.client.value is resources.services["http_client"]
