"""Tools that show what stands on the web: their calls say so in the record, so that a run's report can look at it.

@from_the_web
async def read_page(url: str) -> str: …

is_from_the_web(dspy.Tool(read_page).func)      # True
"""

from collections.abc import Callable
from typing import Any, TypeVar

FROM_THE_WEB = "from_the_web"  # attribute of a call's span, too
_Tool = TypeVar("_Tool", bound=Callable[..., Any])


def from_the_web(tool: _Tool) -> _Tool:
    """Mark a tool whose observations hold what anybody may have published."""
    setattr(tool, FROM_THE_WEB, True)
    return tool


def is_from_the_web(tool: Any) -> bool:
    """Also behind decorators that keep to `functools.wraps`. None: there is no such tool."""
    return getattr(tool, FROM_THE_WEB, False) is True
