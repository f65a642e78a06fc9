"""What a tool has at hand while it is called: the run's settings for tools, and what lives as long as the run.

with at_hand(ToolSettings(), {"browser": session}):
    tool_settings().max_output_chars      # 20000
    resource("browser")                   # the session; None where there is none
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mas.tools.settings import ToolSettings

_NOTHING: tuple[ToolSettings, Mapping[str, Any]] = (ToolSettings(), {})
_at_hand: ContextVar[tuple[ToolSettings, Mapping[str, Any]]] = ContextVar("at_hand", default=_NOTHING)


@contextmanager
def use_tool_context(settings: ToolSettings, resources: Mapping[str, Any]) -> Iterator[None]:
    """For the calls made inside, and in the tasks and threads started with this context."""
    token = _at_hand.set((settings, resources))
    try:
        yield
    finally:
        _at_hand.reset(token)


def tool_settings() -> ToolSettings:
    """The run's; the defaults outside a run."""
    return _at_hand.get()[0]


def resource(name: str) -> Any:
    """What was opened for the run under this name; None: nothing was."""
    return _at_hand.get()[1].get(name)
