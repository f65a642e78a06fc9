"""Program around a user's `dspy.Module`: named inputs, all its outputs, and a span for each call in it.

The tokens and the cost of the program's own model are unknown. A tool is called after the predictor that chose it has
ended (as in `dspy.ReAct`); its span is below that predictor's.
"""

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import dspy
import pydantic_core

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import State
from mas.llm.agent_lm import AgentLM
from mas.prompt_sets.dspy_internals import BaseCallback, annotation_allows_none, parse_value
from mas.runtime.errors import AgentReplyError
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.runtime.sample_context import current_context
from mas.runtime.text import replace_surrogates
from mas.runtime.trace import Kind, Span, current_trace, span, use_span
from mas.systems.external.program import ForeignProgram, Shared, find_trace, read_outputs
from mas.systems.external.target import LoadedModule, choose_answer_field, describe_answer_choice, is_async

MAX_OBSERVATION_CHARS = 20_000
_FINISH = "finish"  # the tool with which dspy.ReAct ends: no work
_COUNTED = "_mas_counted"  # attribute of a function that counts its calls
_UNNAMED = "unnamed predictor"  # made while a sample is answered

# The innermost module's last predictor: (id of the module, span).
_last: ContextVar[tuple[int, Span] | None] = ContextVar("last_predictor", default=None)

CreateLM = Callable[[str], dspy.BaseLM]  # a predictor's name, or "" for the program itself → its language model


class DspyProgram(ForeignProgram):
    """A copy of the user's module; its predictors are this program's, under the same names."""

    plain_demos = True  # as DSPy itself reads them: not always all fields

    def __init__(
        self, loaded: LoadedModule, answer: tuple[str | None, str | None], create_lm: CreateLM | None = None
    ) -> None:
        """Copy the module.

        Args:
            loaded: the user's own, which gets no models and prompts of this run.
            answer: `system.answer_field` and the data's target column.
            create_lm: makes the LM of each predictor that has none; None: they have their own.
        """
        super().__init__(loaded.target)
        self._answer = answer
        self._takes = Shared(loaded)
        self.module = loaded.module.deepcopy()
        tools = limit_tools(self.module)
        # A module with both forms, as those of DSPy: a tool that blocks would hold up all samples on the event loop.
        self._runs_in_thread = not is_async(self.module) or (
            hasattr(type(self.module), "forward") and any(map(blocks, tools))
        )
        self.lm = create_lm("") if create_lm else None  # for predictors that DSPy has frozen, or made while answering
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
        takes = self._takes.value
        arguments: dict[str, object] = {}
        for name, text in given.items():
            is_optional_and_empty = not text and name not in takes.required and not self._is_text(name)
            if (name in takes.inputs or takes.takes_any) and not is_optional_and_empty:
                arguments[name] = text if self._is_text(name) else self._parse(name, text)
        takes_file = "file" in takes.inputs or (takes.takes_any and file is not None)
        return arguments | ({"file": file} if takes_file and "file" not in given else {})

    def _is_text(self, name: str) -> bool:
        return self._takes.value.annotations.get(name, str) in (str, object, Any)

    def _parse(self, name: str, text: str) -> object:
        annotation = self._takes.value.annotations[name]
        if not text and annotation_allows_none(annotation):
            return None
        try:
            return parse_value(text, annotation)
        except (ValueError, TypeError) as error:
            kind = getattr(annotation, "__name__", str(annotation))
            raise AgentReplyError(f"the input {name} of {self.name} is no {kind}: {text[:80]!r}") from error

    async def _call(self, arguments: Mapping[str, object]) -> object:
        changes: dict[str, object] = {"callbacks": [*dspy.settings.callbacks, PredictorSpans(self.module)]}
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


class PredictorSpans(BaseCallback):
    """DSPy callback for one sample."""

    def __init__(self, module: dspy.Module) -> None:
        predictors = [(name, part) for name, part in module.named_sub_modules() if isinstance(part, dspy.Predict)]
        self._names = {id(part): name.removeprefix("self.") for name, part in predictors}  # also of frozen parts
        self._names |= {id(predictor): name for name, predictor in module.named_predictors()}
        self._open: dict[str, tuple[ExitStack, Span]] = {}  # by DSPy's id of the call

    def _begin(self, call_id: str, kind: Kind, name: str, inputs: object, below: Span | None = None) -> None:
        stack = ExitStack()
        if below is not None:
            stack.enter_context(use_span(below))
        self._open[call_id] = stack, stack.enter_context(span(kind, name, inputs if isinstance(inputs, dict) else {}))

    def _end(self, call_id: str, outputs: dict[str, object] | None, exception: BaseException | None) -> Span | None:
        if call_id not in self._open:
            return None
        stack, ended = self._open.pop(call_id)
        if exception is None:
            ended.outputs = outputs or {}
            stack.close()
        else:
            stack.__exit__(type(exception), exception, exception.__traceback__)
        return ended

    def on_module_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        if isinstance(instance, dspy.Predict):
            given, fields = inputs.get("kwargs"), instance.signature.input_fields
            shown = {key: value for key, value in given.items() if key in fields} if isinstance(given, dict) else {}
            self._begin(call_id, "agent", self._names.get(id(instance), _UNNAMED), shown)

    def on_module_end(self, call_id: str, outputs: object, exception: BaseException | None = None) -> None:
        shown = dict(outputs.items()) if isinstance(outputs, dspy.Prediction) else None
        ended, module = self._end(call_id, shown, exception), _calling_module()
        if ended is not None and module is not None:
            _last.set((module, ended))

    def on_lm_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """Record a call of a model that is the program's own; the client of the run's model records its own calls."""
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
    tools = [tool for tool in _find_tools(module).values() if not is_finish(tool)]
    for tool in tools:
        if not hasattr(tool.func, _COUNTED):
            tool.func = _count_calls(tool.func)
    return tools


def blocks(tool: dspy.Tool) -> bool:
    """Return True if the tool's function is no coroutine: what it waits for holds up its thread."""
    function = inspect.unwrap(tool.func)
    return not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__))


def is_finish(tool: dspy.Tool) -> bool:
    """Return True for the tool with which `dspy.ReAct` ends, which does no work."""
    return tool.name == _FINISH and getattr(tool.func, "__module__", "").startswith("dspy.")


def _find_tools(module: dspy.Module) -> dict[int, dspy.Tool]:
    values = [value for _, part in module.named_sub_modules() for value in vars(part).values()]
    values += [each for held in values if isinstance(held, dict) for each in held.values()]
    values += [each for held in values if isinstance(held, list | tuple) for each in held]
    return {id(each): each for each in values if isinstance(each, dspy.Tool)}


def _count_calls(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function, updated=())
    def count_and_call(*args: object, **kwargs: object) -> object:
        if context := current_context():
            context.count_tool_call()
        return function(*args, **kwargs)

    setattr(count_and_call, _COUNTED, True)
    return count_and_call
