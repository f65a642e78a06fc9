"""Models over HTTP, against a server on loopback: what is sent, and what a missing key or server says."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMTimeoutError

from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel, RateSettings
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.trace import Trace, record_trace
from tests.mas.llm.loopback import Received, Server, answer, complete_with, completion, drip, serving
from tests.patience import PATIENCE_SECONDS
from tests.servers.loopback import Answer

PROJECT = Path(__file__).parents[4]
AT_ONCE = 150  # more than DSPy's silent cap of 100 connections


def ask(server: Server, text: str = "hi", **profile: Any) -> Any:
    settings: dict[str, Any] = {"name": "any", "base_url": server.base_url, "num_retries": 0, **profile}
    return run_blocking(OpenAIChatModel(**settings).create_lm(AgentModel()).acall(text))


def test_a_missing_key_is_one_sentence_that_names_the_variable_and_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(UserError) as caught:
        OpenAIChatModel("gpt-4o-mini", api_key_env="SOME_KEY").check()
    message = str(caught.value)
    assert "\n" not in message and message.endswith(".")
    assert all(part in message for part in ("gpt-4o-mini", "SOME_KEY", "experiment=offline"))
    monkeypatch.setenv("SOME_KEY", "")
    with pytest.raises(UserError, match="SOME_KEY"):
        OpenAIChatModel("gpt-4o-mini", api_key_env="SOME_KEY").check()
    monkeypatch.setenv("SOME_KEY", "sk-12345678")
    OpenAIChatModel("gpt-4o-mini", api_key_env="SOME_KEY").check()


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(UserError, match=rf"no model server answers at model\.base_url=http://127\.0\.0\.1:{port}"):
        OpenAIChatModel("any", base_url=f"http://127.0.0.1:{port}/v1").check()


@pytest.mark.parametrize("url", ["127.0.0.1:8000/v1", "ftp://host/v1", "http://", "v1"])
def test_an_address_that_is_no_url_is_one_sentence(url: str) -> None:
    with pytest.raises(UserError, match=r"is not a URL; expected something like http://"):
        OpenAIChatModel("any", base_url=url).check()


def test_name_key_and_settings_arrive_at_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-12345678")
    with serving(complete_with("hello")) as server:
        profile = OpenAIChatModel(
            "org/model:7b", base_url=server.base_url, api_key_env="SOME_KEY", temperature=0.2, max_tokens=77
        )
        assert run_blocking(profile.create_lm(AgentModel()).acall("hi")) == ["hello"]
        assert run_blocking(profile.create_lm(AgentModel(name="other", temperature=0.9)).acall("hi")) == ["hello"]
    first, second = server.requests
    assert first.path == "/v1/chat/completions"
    assert first.headers["authorization"] == "Bearer sk-12345678"
    assert (first.body["model"], first.body["temperature"]) == ("org/model:7b", 0.2)
    assert 77 in (first.body.get("max_tokens"), first.body.get("max_completion_tokens"))
    assert (second.body["model"], second.body["temperature"]) == ("other", 0.9)


class Lookup(dspy.Signature):
    """Look it up."""

    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField()
    answer: str = dspy.OutputField()


def look_up(word: str) -> str:
    """Look a word up."""
    return word


@pytest.mark.parametrize("native_tools", [True, False])
def test_the_profile_says_whether_tools_are_native(native_tools: bool) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "x"}'}}
    native = complete_with("", "tool_calls", tool_calls=[call])
    text = complete_with(
        '[[ ## tool_calls ## ]]\n{"tool_calls": [{"name": "look_up", "args": {"word": "x"}}]}\n\n[[ ## answer ## ]]\n'
    )
    with serving(native if native_tools else text) as server:
        lm = OpenAIChatModel("any", base_url=server.base_url, native_tools=native_tools).create_lm(AgentModel())
        assert lm.supports_function_calling is native_tools
        with dspy.context(adapter=dspy.ChatAdapter(use_native_function_calling=True), lm=lm):
            prediction = run_blocking(dspy.Predict(Lookup).acall(question="x?", tools=[dspy.Tool(look_up)]))
    assert [(each.name, each.args) for each in prediction.tool_calls.tool_calls] == [("look_up", {"word": "x"})]
    (request,) = server.requests
    assert ("tools" in request.body) is native_tools
    assert ("look_up, whose description is" in json.dumps(request.body["messages"])) is not native_tools


def test_the_account_at_openai_is_named_to_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-ours")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-ours")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: secret-of-ours")
    with serving(complete_with("hello")) as server:
        ask(server)
    assert "of-ours" not in str(server.requests[0].headers)


def test_a_dripping_reply_is_cut_off_at_the_deadline_and_the_connection_closed() -> None:
    with serving(drip) as server:
        with pytest.raises(LMTimeoutError, match=r"no complete reply within 1\.5 s \(model\.call_deadline_seconds\)"):
            ask(server, call_deadline_seconds=1.5, num_retries=3, retry_base_seconds=0.001)
        assert server.disconnected.wait(PATIENCE_SECONDS)
        assert len(server.requests) == 1, "nothing is cut off before there are replies to learn from"


def test_more_than_a_hundred_requests_are_in_flight_at_once() -> None:
    """No request is answered before all have arrived: with a lower cap this would never end."""
    everybody = threading.Barrier(AT_ONCE)

    def hold(request: Received) -> Answer:
        everybody.wait(PATIENCE_SECONDS)
        return answer(completion("hello"))

    async def all_at_once(lm: Any) -> list[Any]:
        return await asyncio.gather(*(lm.acall(f"question {index}") for index in range(AT_ONCE)))

    with serving(hold) as server:
        fast = RateSettings(
            requests_per_minute=1_000_000
        )  # a server of unknown rate would be tried with a few at first
        profile = OpenAIChatModel(
            "any", base_url=server.base_url, num_retries=0, rate=fast, call_deadline_seconds=PATIENCE_SECONDS
        )
        lm = profile.create_lm(AgentModel())
        assert lm.supports_function_calling, "the lifted cap does not cost the native tools"
        assert run_blocking(all_at_once(lm)) == [["hello"]] * AT_ONCE
    assert len(server.requests) == AT_ONCE


@pytest.mark.parametrize("synchronous", [True, False])
def test_no_more_requests_are_in_flight_than_the_profile_allows_and_the_others_wait(synchronous: bool) -> None:
    in_flight, peak = 0, 0

    def slow(request: Received) -> Answer:
        nonlocal in_flight, peak
        in_flight += 1
        peak = max(peak, in_flight)
        time.sleep(0.05)
        in_flight -= 1
        return answer(completion("hello"))

    def ask_one(lm: Any) -> Any:
        return lm("hi") if synchronous else run_blocking(lm.acall("hi"))

    with serving(slow) as server, ThreadPoolExecutor(8) as threads:
        profile = OpenAIChatModel("any", base_url=server.base_url, num_retries=0, max_connections=2)
        lms = [profile.create_lm(AgentModel(agent=str(number))) for number in range(8)]
        assert list(threads.map(ask_one, lms)) == [["hello"]] * 8
    assert peak == 2


def test_usage_and_the_end_of_the_reply_are_on_the_span() -> None:
    trace = Trace("thread")
    with serving(complete_with("hello")) as server, record_trace(trace):
        ask(server, "what is it?")
    (span,) = trace.spans
    assert (span.kind, span.name, span.error) == ("lm", "openai/any", None)
    assert 0 <= span.attributes.pop("waited_seconds") < PATIENCE_SECONDS
    assert span.attributes == {
        "attempt": 1,
        "finish_reason": "stop",
        "input_tokens": 30,
        "cached_input_tokens": 0,
        "output_tokens": 4,
        "cost_usd": None,
    }
    assert "what is it?" in json.dumps(span.inputs) and "hello" in json.dumps(span.outputs)


def test_the_key_is_nowhere_in_the_trace_or_the_saved_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    trace = Trace("thread")
    with serving(complete_with("hello")) as server, record_trace(trace):
        lm = OpenAIChatModel("any", base_url=server.base_url, api_key_env="SOME_KEY").create_lm(AgentModel())
        run_blocking(lm.acall("hi"))
    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in repr([vars(span) for span in trace.spans])
    assert "sk-very-secret" not in json.dumps(lm.dump_state(), default=repr)


def in_a_new_process(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_openai_base_url_does_not_switch_to_litellm() -> None:
    code = (
        "import sys\n"
        "from mas.runtime.event_loop import run_blocking\n"
        "from mas.llm.profiles.model import AgentModel\n"
        "from mas.llm.profiles.openai_chat import OpenAIChatModel\n"
        "lm = OpenAIChatModel('any', base_url=BASE_URL).create_lm(AgentModel())\n"
        "print(run_blocking(lm.acall('hi')))\n"
        "print('litellm' in sys.modules)"
    )
    with serving(complete_with("hello")) as server:
        elsewhere = "http://127.0.0.1:1/v1"
        printed = in_a_new_process(
            code.replace("BASE_URL", repr(server.base_url)), OPENAI_BASE_URL=elsewhere, OPENAI_API_BASE=elsewhere
        )
    assert printed == ["['hello']", "False"]
    assert len(server.requests) == 1
