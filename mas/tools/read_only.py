"""Tools that only look: the same call for the same question always returns the same, so it need not be made twice.

A resumed run, or the next candidate of a search, is answered from `Question.tool_log`: what the tool returned for these
arguments, before it was cut for a prompt. A failure is not kept, nor is a makeshift that the tool itself calls so.
Attachments differ from question to question, and so the log belongs to one of them.

    @read_only
    def calculator(expression: str) -> str: …

    kept = KeptObservation(current_question(), dspy.Tool(calculator), {"expression": "2+2"})
    kept.find()      # None: the tool has to be asked
    with kept.asking():
        returned = calculator("2+2")     # inside, a tool may call not_to_be_kept()
    kept.keep(returned)
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from mas.question import Question, Replies

_MARK = "is_read_only"
_Tool = TypeVar("_Tool", bound=Callable[..., Any])


def read_only(tool: _Tool) -> _Tool:
    """Mark a tool that changes nothing, and that depends on nothing but its arguments and the question's own files."""
    setattr(tool, _MARK, True)
    return tool


def is_read_only(tool: Callable[..., Any]) -> bool:
    """Also behind decorators that keep to `functools.wraps`."""
    return getattr(tool, _MARK, False) is True


def not_to_be_kept() -> None:
    """Said by a tool while it is called: what this call returns is no more than what could be had now."""
    if (asked := _asked.get()) is not None:
        asked.drop()


class KeptObservation:
    """What one call returned before; of a tool that is not marked, or without a log, nothing is found or kept."""

    def __init__(self, question: Question | None, tool: Any, arguments: dict[str, Any]) -> None:
        """`tool`: a `dspy.Tool`; None: there is none of that name."""
        self._log: Replies | None = None
        if question is None or question.tool_log is None or tool is None or not is_read_only(tool.func):
            return
        self._log = question.tool_log
        called = ("tool", getattr(tool.func, "__module__", ""), tool.name, sorted(arguments.items()))
        self._key = hashlib.sha256(repr(called).encode()).hexdigest()  # whatever a model makes up has one

    def find(self) -> str | None:
        return None if self._log is None else self._log.get(self._key)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around the call, also where the tool runs in a thread or task of its own, started with this context."""
        token = _asked.set(self)
        try:
            yield
        finally:
            _asked.reset(token)

    def drop(self) -> None:
        self._log = None

    def keep(self, returned: str) -> None:
        if self._log is not None:
            self._log.put(self._key, returned)


_asked: ContextVar[KeptObservation | None] = ContextVar("asked", default=None)
