"""Calls in a user's DSPy program: a span for each call of a predictor, a tool or the program's model; a limit of tools.

The tokens and the cost of the program's model are unknown. A tool is called after the predictor that chose it has
ended (as in `dspy.ReAct`); its span is below that predictor's.
"""

import functools
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar

import dspy

from mas.llm.agent_lm import AgentLM
from mas.prompt_sets.dspy_internals import BaseCallback
from mas.runtime.sample_context import current_context
from mas.runtime.trace import Kind, Span, span, use_span

MAX_OBSERVATION_CHARS = 20_000
_FINISH = "finish"  # the tool with which dspy.ReAct ends: no work
_COUNTED = "_mas_counted"  # attribute of a function that counts its calls
_UNNAMED = "unnamed predictor"  # made while a sample is answered

# The innermost module's last predictor: (id of the module, span).
_last: ContextVar[tuple[int, Span] | None] = ContextVar("last_predictor", default=None)


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
