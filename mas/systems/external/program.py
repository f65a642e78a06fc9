"""Programs around a user's function, HTTP server or `dspy.Module`.

A server gets a question as a POST, with `file` null for a question without one, and its response is the answer:

    → {"question": "How many?", "file": {"name": "sales.csv", "content_base64": "bmFt…"}, "thread_id": "7f3c…"}
    ← {"answer": "418", "reasoning_trace": "the sum of column B"}

A module gets named inputs; all its outputs are kept, and each call in it has a span.
"""

import asyncio
import base64
import functools
import inspect
import json
import textwrap
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakSet

import dspy
import httpx
import pydantic_core

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import AgentProgram, State
from mas.llm.agent_lm import AgentLM
from mas.prompt_sets.dspy_internals import BaseCallback, annotation_allows_none, parse_value
from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.runtime.sample_context import current_context
from mas.runtime.text import name_type, replace_surrogates
from mas.runtime.trace import Kind, Span, current_trace, span, use_span
from mas.systems.external.target import (
    Agent,
    LoadedModule,
    choose_answer_field,
    describe_answer_choice,
    is_async,
    is_coroutine,
)

ANSWER_KEYS = ("final_answer", "answer")
TRACE_KEYS = ("final_reasoning_trace", "reasoning_trace", "reasoning")

OK = 200
TEMPORARY = (408, 425, 429)  # too slow, too early, too many: the agent may answer later
CONNECT_TIMEOUT_SECONDS = 10.0
MAX_IDLE_CONNECTIONS = 20
MAX_BODY_CHARS = 200  # of an error's body in its message
MAX_OBSERVATION_CHARS = 20_000
_FINISH = "finish"  # the tool with which dspy.ReAct ends: no work
_COUNTED = "_mas_counted"  # attribute of a function that counts its calls
_UNNAMED = "unnamed predictor"  # made while a sample is answered

# The innermost module's last predictor: (id of the module, span).
_last: ContextVar[tuple[int, Span] | None] = ContextVar("last_predictor", default=None)

CreateLM = Callable[[str], dspy.BaseLM]  # predictor's name, or "" for the program → its LM


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
    """Return the answer, its reasoning and the other values of what an agent returned."""
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
    """Program around an external agent; a subclass says how the agent is called.

    Tuning copies a program deeply; the agent is in a closure, so that all copies share it.
    """

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


class FunctionProgram(ForeignProgram):
    """Program around a function, which runs in a thread; a coroutine runs on the event loop."""

    def __init__(self, name: str, agent: Agent, lm: dspy.BaseLM | None = None) -> None:
        super().__init__(name)
        self.agent = agent
        self.lm = lm  # for dspy inside the function; None: it has its own

    async def ask(self, question: str, file: Path | None, thread_id: str) -> object:
        with dspy.context(lm=self.lm) if self.lm is not None else nullcontext():
            if self.agent.is_async:
                return await await_safely(self.agent.call(question, file), self.describe_end)
            value = await run_in_thread(lambda: self.agent.call(question, file), self.describe_end)
            return await await_safely(value, self.describe_end) if inspect.isawaitable(value) else value


async def open_client(authorization: str) -> httpx.AsyncClient:
    """Open a client with a connection for each question, and no time limit: each question has its own.

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
        self.post: Callable[[object], Awaitable[httpx.Response]] = lambda body: client.post(url, json=body)

    async def ask(self, question: str, file: Path | None, thread_id: str) -> dict[str, object]:
        """Return the agent's JSON object; nothing is asked twice, which might do harm.

        AgentUnavailableError: it cannot be reached, takes too long, or fails (5xx). AgentReplyError: it refuses the
        question (4xx), or answers with something else than JSON.
        """
        body = {"question": replace_surrogates(question), "file": await _read_attachment(file), "thread_id": thread_id}
        try:
            async with asyncio.timeout(self.timeout_seconds):
                response = await self.post(body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise AgentUnavailableError(
                f"the agent at {self.url} gave no answer within {self.timeout_seconds:g} s (system.timeout_seconds)"
            ) from error
        except httpx.TransportError as error:
            cause = str(error) or type(error).__name__
            raise AgentUnavailableError(f"the agent at {self.url} cannot be reached ({cause})") from error
        except httpx.RequestError as error:
            raise AgentReplyError(f"the agent's response cannot be read ({type(error).__name__}: {error})") from error
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


class _ProgressBars(WeakSet[Any]):
    """Progress bars of all threads. `dspy.Parallel` clears them, also one that another thread is about to remove."""

    remove = WeakSet.discard


dspy.utils.parallelizer.tqdm.tqdm._instances = _ProgressBars()


class DspyProgram(ForeignProgram):
    """A copy of the user's module; its predictors are this program's, under the same names."""

    plain_demos = True  # as DSPy itself reads them: not always all fields

    def __init__(
        self, loaded: LoadedModule, answer: tuple[str | None, str | None], create_lm: CreateLM | None = None
    ) -> None:
        """Copy the user's module, which gets no models and prompts of this run.

        `answer` has `system.answer_field` and the data's target column; `create_lm` makes the LM of each predictor that
        has none (None: they have their own).
        """
        super().__init__(loaded.target)
        self._answer = answer
        self._get_loaded: Callable[[], LoadedModule] = lambda: loaded  # deep copies share it
        self.module = loaded.module.deepcopy()
        tools = limit_tools(self.module)
        # A module with both forms, as those of DSPy: a tool that blocks would hold up all samples on the event loop, as
        # would the code of an RLM, which waits for its model calls.
        blocks = any(isinstance(part, dspy.RLM) for _, part in self.module.named_sub_modules())
        blocks = blocks or not all(is_coroutine(inspect.unwrap(tool.func)) for tool in tools)
        self._runs_in_thread = not is_async(self.module) or (hasattr(type(self.module), "forward") and blocks)
        self.lm = create_lm("") if create_lm else None  # for predictors that are frozen, or made later
        for name, predictor in self.named_predictors():
            if predictor.lm is None and create_lm:
                predictor.lm = create_lm(name)

    def named_parameters(self) -> list[tuple[str, dspy.Predict]]:
        parameters: list[tuple[str, dspy.Predict]] = self.module.named_parameters()
        return parameters

    async def answer_inputs(self, question: str, file: Path | None, thread_id: str, inputs: Mapping[str, str]) -> State:
        given: Mapping[str, str] = inputs or {"question": question}
        state: dict[str, object] = {"question": question, "file": file.name if file else None}
        state |= {"inputs": dict(given), "correlation_id": thread_id}
        current_trace().state = dict(state)
        with self.note_timeout():
            value = await self._call(self._list_arguments(given, file))
        outputs = read_outputs(value, self.name)
        state["outputs"] = outputs
        current_trace().state = dict(state)
        field = choose_answer_field(outputs, *self._answer)
        if field is None:
            raise AgentReplyError(describe_answer_choice(self.name, outputs, self._answer[0]))
        answer, trace = _write_text(outputs[field]), _write_text(find_trace(outputs))
        return {**state, "final_answer": answer, "final_reasoning_trace": trace}

    def _list_arguments(self, given: Mapping[str, str], file: Path | None) -> dict[str, object]:
        takes = self._get_loaded()
        arguments: dict[str, object] = {}
        for name, text in given.items():
            annotation = takes.annotations.get(name, str)
            is_text = annotation in (str, object, Any)
            is_optional_and_empty = not text and name not in takes.required and not is_text
            if (name in takes.inputs or takes.takes_any) and not is_optional_and_empty:
                arguments[name] = text if is_text else self._parse(name, text, annotation)
        takes_file = "file" in takes.inputs or (takes.takes_any and file is not None)
        return arguments | ({"file": file} if takes_file and "file" not in given else {})

    def _parse(self, name: str, text: str, annotation: object) -> object:
        if not text and annotation_allows_none(annotation):
            return None
        try:
            return parse_value(text, annotation)
        except (ValueError, TypeError) as error:
            kind = getattr(annotation, "__name__", str(annotation))
            raise AgentReplyError(f"the input {name} of {self.name} is no {kind}: {text[:80]!r}") from error

    async def _call(self, arguments: Mapping[str, object]) -> object:
        changes: dict[str, object] = {"callbacks": [*dspy.settings.callbacks, CallSpans(self.module)]}
        if dspy.settings.adapter is None:
            changes["adapter"] = ChatAdapter(plain_demos=True)
        if self.lm is not None:
            changes["lm"] = self.lm
        with dspy.context(**changes):
            if self._runs_in_thread:
                return await run_in_thread(lambda: self.module(**arguments), self.describe_end)
            return await await_safely(self.module.acall(**arguments), self.describe_end)


def _write_text(value: object) -> str:
    """Return an output as the text that is scored; a list, object, set, dataclass or model is JSON."""
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    plain = pydantic_core.to_jsonable_python(value, fallback=str)
    if plain is None:
        return ""
    return replace_surrogates(
        str(plain) if isinstance(plain, str | int | float) else json.dumps(plain, ensure_ascii=False)
    )


class CallSpans(BaseCallback):
    """DSPy callback for one sample.

    A tool is called after the predictor that chose it has ended (as in `dspy.ReAct`); its span is below that one's.
    """

    def __init__(self, module: dspy.Module) -> None:
        predictors = [(name, part) for name, part in module.named_sub_modules() if isinstance(part, dspy.Predict)]
        self._names = {id(part): name.removeprefix("self.") for name, part in predictors}  # and frozen ones
        self._names |= {id(predictor): name for name, predictor in module.named_predictors()}
        self._open: dict[str, tuple[ExitStack, Span]] = {}  # by DSPy's id of the call

    def _begin(self, call_id: str, kind: Kind, name: str, inputs: object, below: Span | None = None) -> None:
        opened = ExitStack()
        if below is not None:
            opened.enter_context(use_span(below))
        shown = inputs if isinstance(inputs, dict) else {}
        self._open[call_id] = opened, opened.enter_context(span(kind, name, shown))

    def _end(self, call_id: str, outputs: dict[str, object], exception: BaseException | None) -> Span | None:
        if call_id not in self._open:
            return None
        opened, ended = self._open.pop(call_id)
        if exception is None:
            ended.outputs = outputs
            opened.close()
        else:
            opened.__exit__(type(exception), exception, exception.__traceback__)
        return ended

    def on_module_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        if isinstance(instance, dspy.Predict):
            given, fields = inputs.get("kwargs"), instance.signature.input_fields
            shown = {key: value for key, value in given.items() if key in fields} if isinstance(given, dict) else {}
            self._begin(call_id, "agent", self._names.get(id(instance), _UNNAMED), shown)

    def on_module_end(self, call_id: str, outputs: object, exception: BaseException | None = None) -> None:
        shown = dict(outputs.items()) if isinstance(outputs, dspy.Prediction) else {}
        ended, module = self._end(call_id, shown, exception), _calling_module()
        if ended is not None and module is not None:
            _last.set((module, ended))

    def on_lm_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """Record a call of the program's own model; the client of the run's model records its calls."""
        if isinstance(instance, dspy.BaseLM) and not isinstance(instance, AgentLM):
            shown = {name: inputs.get(name) for name in ("prompt", "messages") if inputs.get(name) is not None}
            self._begin(call_id, "lm", str(instance.model), shown)

    def on_lm_end(self, call_id: str, outputs: object, exception: BaseException | None = None) -> None:
        self._end(call_id, {"text": str(outputs)[:MAX_OBSERVATION_CHARS]}, exception)

    def on_tool_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        if isinstance(instance, dspy.Tool) and not is_finish(instance):
            last = _last.get()
            below = last[1] if last is not None and last[0] == _calling_module() else None
            self._begin(call_id, "tool", instance.name or "tool", inputs.get("kwargs"), below)

    def on_tool_end(self, call_id: str, outputs: object, exception: BaseException | None = None) -> None:
        self._end(call_id, {"observation": str(outputs)[:MAX_OBSERVATION_CHARS]}, exception)


def _calling_module() -> int | None:
    modules = dspy.settings.caller_modules
    return id(modules[-1]) if modules else None


def limit_tools(module: dspy.Module) -> list[dspy.Tool]:
    """Let each tool of a module count its calls before they are made, and return the tools.

    A call too many raises LimitReachedError in the tool, which `dspy.ReAct` shows to its agent.
    """
    values = [value for _, part in module.named_sub_modules() for value in vars(part).values()]
    values += [each for held in values if isinstance(held, dict) for each in held.values()]
    values += [each for held in values if isinstance(held, list | tuple) for each in held]
    tools = [each for each in values if isinstance(each, dspy.Tool) and not is_finish(each)]
    for tool in tools:
        if not hasattr(tool.func, _COUNTED):
            tool.func = _count_calls(tool.func)
    return tools


def is_finish(tool: dspy.Tool) -> bool:
    """Return True for the tool with which `dspy.ReAct` ends, which does no work."""
    return tool.name == _FINISH and getattr(tool.func, "__module__", "").startswith("dspy.")


def _count_calls(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function, updated=())
    def count_and_call(*args: object, **kwargs: object) -> object:
        if context := current_context():
            context.count_tool_call()
        return function(*args, **kwargs)

    setattr(count_and_call, _COUNTED, True)
    return count_and_call
