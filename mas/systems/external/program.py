"""Programs around external agents: what such an agent may return, and how its reply is read.

read_reply({"answer": 42, "reasoning_trace": "six times seven", "pages": [3]}, "my_agent:answer")
# ("42", "six times seven", {"pages": [3]})

An agent behind an address gets a question as a POST, and its response is the answer:

    → {"question": "How many?", "file": {"name": "sales.csv", "content_base64": "bmFt…"}, "thread_id": "7f3c…"}
    ← {"answer": "418", "reasoning_trace": "the sum of column B"}

`file` is null for a question without one. No request is repeated: only the agent's owner knows if that is harmless.
"""

import asyncio
import base64
import inspect
import json
import textwrap
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Generic, TypeVar

import dspy
import httpx

from mas.agents.program import AgentProgram, State
from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.runtime.text import name_type, replace_surrogates
from mas.runtime.trace import current_trace, span
from mas.systems.external.target import Agent

ANSWER_KEYS = ("final_answer", "answer")
TRACE_KEYS = ("final_reasoning_trace", "reasoning_trace", "reasoning")

OK = 200
TEMPORARY = (408, 425, 429)  # too slow, too early, too many: the agent may answer later
CONNECT_TIMEOUT_SECONDS = 10.0
MAX_IDLE_CONNECTIONS = 20
MAX_BODY_CHARS = 200  # of an error's body in its message

T = TypeVar("T")


def read_outputs(value: object, agent: str) -> dict[str, object]:
    """Return the values that an agent gives, by name; a text or a number is its answer."""
    if isinstance(value, str | int | float):
        return {"answer": value}
    if not isinstance(value, Mapping | dspy.Prediction):
        raise AgentReplyError(f"{agent} returned {name_type(value)}; expected a text, a dict or a dspy.Prediction")
    return {str(key): item for key, item in value.items()}


def find_trace(outputs: Mapping[str, object]) -> object:
    return next((outputs[key] for key in TRACE_KEYS if outputs.get(key) is not None), "")


def read_reply(value: object, agent: str) -> tuple[str, str, dict[str, object]]:
    """Return the answer, its reasoning and the other values of a text, a number, a mapping or a `dspy.Prediction`."""
    outputs = read_outputs(value, agent)
    answer = next((outputs[key] for key in ANSWER_KEYS if outputs.get(key) is not None), None)
    if not isinstance(answer, str | int | float):
        keys = ", ".join(outputs) or "none"
        raise AgentReplyError(
            f"{agent} gave no answer; expected the key 'answer' with a text or a number, and found: {keys}"
        )
    rest = {key: item for key, item in outputs.items() if key not in (*ANSWER_KEYS, *TRACE_KEYS)}
    return replace_surrogates(str(answer)), replace_surrogates(str(find_trace(outputs))), rest


class ForeignProgram(AgentProgram):
    """Program around an external agent; a subclass says how the agent is called."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name  # of the agent, in traces and messages

    @abstractmethod
    async def ask(self, question: str, file: Path | None, thread_id: str) -> object:
        """Return what the agent returns; an exception ends the question."""

    @contextmanager
    def note_timeout(self) -> Iterator[None]:
        """Report a timeout of the agent's own; the question's deadline arrives as a cancellation."""
        try:
            yield
        except TimeoutError as error:
            raise AgentUnavailableError(f"{self.name} gave up waiting ({type(error).__name__}: {error})") from error

    def describe_end(self, how: str) -> AgentReplyError:
        """Return the error of an agent that has ended in an unusual way, such as by `sys.exit`."""
        return AgentReplyError(f"{self.name} {how} instead of an answer")

    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        """Return the final state, with what else the agent has returned as `reply`."""
        inputs = {"question": question, "file": file.name if file else None}
        state: dict[str, object] = {**inputs, "correlation_id": thread_id}
        current_trace().state = dict(state)
        with span("agent", self.name, inputs=inputs) as current:
            with self.note_timeout():
                value = await self.ask(question, file, thread_id)
            answer, trace, rest = read_reply(value, self.name)
            answers = {"final_answer": answer, "final_reasoning_trace": trace}
            current.outputs = dict(answers)
        return {**state, **answers, "reply": rest}


class Shared(Generic[T]):
    """Value that all copies of a program share, as tuning makes them."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, object]) -> "Shared[T]":
        return self


class FunctionProgram(ForeignProgram):
    """Program around a function. It runs in a thread, so that it may block; a coroutine runs on the event loop."""

    def __init__(self, agent: Agent, lm: dspy.BaseLM | None = None) -> None:
        super().__init__(agent.target)
        self.agent = Shared(agent)
        self.lm = lm  # for dspy inside the function; None: it has its own

    async def ask(self, question: str, file: Path | None, thread_id: str) -> object:
        agent = self.agent.value
        positional, named = agent.arguments(question, file)
        is_async = inspect.iscoroutinefunction(agent.value) or inspect.iscoroutinefunction(type(agent.value).__call__)
        with dspy.context(lm=self.lm) if self.lm is not None else nullcontext():
            if is_async:
                return await await_safely(agent.value(*positional, **named), self.describe_end)
            value = await run_in_thread(lambda: agent.value(*positional, **named), self.describe_end)
            return await await_safely(value, self.describe_end) if inspect.isawaitable(value) else value


async def open_client(authorization: str) -> httpx.AsyncClient:
    """Open a client with as many connections as questions run at once, and no time limit: each question has its own.

    Few idle connections are kept: httpx goes through all of them for each request, more than once.
    """
    return httpx.AsyncClient(
        headers={"Authorization": authorization} if authorization else {},
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS),
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_SECONDS),
    )


class HttpProgram(ForeignProgram):
    """One agent behind one address."""

    def __init__(self, name: str, url: str, timeout_seconds: float, client: httpx.AsyncClient) -> None:
        super().__init__(name)
        self.url = url
        self.timeout_seconds = timeout_seconds
        self.client = Shared(client)

    async def ask(self, question: str, file: Path | None, thread_id: str) -> dict[str, object]:
        """Return the JSON object that the agent answers with.

        Raises:
            AgentUnavailableError: it cannot be reached, takes too long, or fails (5xx).
            AgentReplyError: it refuses the question (4xx), or answers with something else than JSON.
        """
        body = {"question": replace_surrogates(question), "file": await _read_attachment(file), "thread_id": thread_id}
        try:
            async with asyncio.timeout(self.timeout_seconds):
                response = await self.client.value.post(self.url, json=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise AgentUnavailableError(
                f"the agent at {self.url} gave no answer within {self.timeout_seconds:g} s (system.timeout_seconds)"
            ) from error
        except httpx.TransportError as error:
            cause = str(error) or type(error).__name__
            raise AgentUnavailableError(f"the agent at {self.url} cannot be reached ({cause})") from error
        except httpx.RequestError as error:
            raise AgentReplyError(f"the agent's response cannot be read ({type(error).__name__}: {error})") from error
        return self._read_response(response)

    def _read_response(self, response: httpx.Response) -> dict[str, object]:
        text = textwrap.shorten(response.text, MAX_BODY_CHARS, placeholder="…") or "(no text)"
        if response.status_code != OK:
            is_temporary = response.status_code >= 500 or response.status_code in TEMPORARY
            fault = AgentUnavailableError if is_temporary else AgentReplyError
            raise fault(f"the agent at {self.url} answered with HTTP {response.status_code}, expected {OK}: {text}")
        try:
            content = json.loads(response.content)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise AgentReplyError(
                f"the agent at {self.url} answered with something else than JSON (an object with 'answer'): {text}"
            )
        return content


async def _read_attachment(file: Path | None) -> dict[str, str] | None:
    if file is None:
        return None
    content = await asyncio.to_thread(file.read_bytes)
    return {"name": replace_surrogates(file.name), "content_base64": base64.b64encode(content).decode("ascii")}
