"""The one exception that a tool raises on purpose.

raise ToolError("no sheet is named 'Sale'; the sheets are 'Sales', 'Costs'")
"""

from collections.abc import Callable
from typing import Any, TypeVar


class ToolError(Exception):
    """A tool could not do it: one sentence with the cause and what to try instead.

    Its reader is the agent: the caller hands it back as an observation, and the question goes on.
    """


FROM_THE_WEB = "from_the_web"  # attribute of a call's span, too
_Tool = TypeVar("_Tool", bound=Callable[..., Any])


def from_the_web(tool: _Tool) -> _Tool:
    """Mark a tool whose observations hold what anybody may have published."""
    setattr(tool, FROM_THE_WEB, True)
    return tool


def is_from_the_web(tool: Any) -> bool:
    """Also behind decorators that keep to `functools.wraps`. None: there is no such tool."""
    return getattr(tool, FROM_THE_WEB, False) is True
