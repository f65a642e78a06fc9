"""Spans of a user's DSPy program: for each call of a predictor, of a tool, and of a model of its own.

Of a model of its own neither tokens nor cost are known.

A tool is called after the predictor that chose it has ended (as in `dspy.ReAct`); its span is below that predictor's.

    with dspy.context(callbacks=[PredictorSpans(program)]):
        await program.acall(question="How many?")
"""

from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass

import dspy

from mas.llm.agent_lm import AgentLM
from mas.prompt_sets.dspy_internals import BaseCallback
from mas.runtime.trace import Span, span, use_span
from mas.systems.external.dspy_tools import is_finish

MAX_OBSERVATION_CHARS = 20_000
_UNNAMED = "unnamed predictor"  # made while a sample is answered

# The innermost module's last predictor: (id of the module, span).
_last: ContextVar[tuple[int, Span] | None] = ContextVar("last_predictor", default=None)


@dataclass
class _Open:
    stack: ExitStack
    span: Span
    module: int | None  # id of the module that called


class PredictorSpans(BaseCallback):
    """DSPy callback for one sample."""

    def __init__(self, module: dspy.Module) -> None:
        self._names = _name_all(module)
        self._open: dict[str, _Open] = {}  # by DSPy's id of the call

    def on_module_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        if not isinstance(instance, dspy.Predict):
            return
        given = inputs.get("kwargs")
        fields = instance.signature.input_fields
        shown = {name: value for name, value in given.items() if name in fields} if isinstance(given, dict) else {}
        stack = ExitStack()
        opened = stack.enter_context(span("agent", self._names.get(id(instance), _UNNAMED), inputs=shown))
        self._open[call_id] = _Open(stack, opened, _calling_module())

    def on_module_end(self, call_id: str, outputs: object, exception: BaseException | None = None) -> None:
        if (ended := self._open.pop(call_id, None)) is None:
            return
        if isinstance(outputs, dspy.Prediction):
            ended.span.outputs = dict(outputs.items())
        _close(ended, exception)
        if ended.module is not None:
            _last.set((ended.module, ended.span))

    def on_lm_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """Record a call of a model that is the program's own; the client of the run's model records its own calls."""
        if not isinstance(instance, dspy.BaseLM) or isinstance(instance, AgentLM):
            return
        shown = {name: inputs.get(name) for name in ("prompt", "messages") if inputs.get(name) is not None}
        stack = ExitStack()
        self._open[call_id] = _Open(stack, stack.enter_context(span("lm", str(instance.model), inputs=shown)), None)

    def on_lm_end(self, call_id: str, outputs: object, exception: BaseException | None = None) -> None:
        if (ended := self._open.pop(call_id, None)) is None:
            return
        if exception is None:
            ended.span.outputs = {"text": str(outputs)[:MAX_OBSERVATION_CHARS]}
        _close(ended, exception)

    def on_tool_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        if not isinstance(instance, dspy.Tool) or is_finish(instance):
            return
        given = inputs.get("kwargs")
        stack, last = ExitStack(), _last.get()
        if last is not None and last[0] == _calling_module():
            stack.enter_context(use_span(last[1]))
        name = instance.name or "tool"
        opened = stack.enter_context(span("tool", name, inputs=given if isinstance(given, dict) else {}))
        self._open[call_id] = _Open(stack, opened, None)

    def on_tool_end(self, call_id: str, outputs: object, exception: BaseException | None = None) -> None:
        if (ended := self._open.pop(call_id, None)) is None:
            return
        if exception is None:
            ended.span.outputs = {"observation": str(outputs)[:MAX_OBSERVATION_CHARS]}
        _close(ended, exception)


def _close(ended: _Open, exception: BaseException | None) -> None:
    if exception is None:
        ended.stack.close()
    else:
        ended.stack.__exit__(type(exception), exception, exception.__traceback__)


def _calling_module() -> int | None:
    modules = dspy.settings.caller_modules
    return id(modules[-1]) if modules else None


def _name_all(module: dspy.Module) -> dict[int, str]:
    """Return the name of each predictor, also in parts that DSPy has frozen after compiling."""
    names = {
        id(each): name.removeprefix("self.")
        for name, each in module.named_sub_modules()
        if isinstance(each, dspy.Predict)
    }
    return names | {id(predictor): name for name, predictor in module.named_predictors()}
