"""Tools of a user's DSPy program: found in its modules, and counted against `limits.tool_calls`.

limit_tools(dspy.ReAct("question -> answer", tools=[search]))      # the tool `search`, in a list
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping

import dspy

from mas.runtime.sample_context import current_context

_FINISH = "finish"  # the tool with which dspy.ReAct ends: no work
_COUNTED = "_mas_counted"  # attribute of a function that counts its calls


def limit_tools(module: dspy.Module) -> list[dspy.Tool]:
    """Let each tool of a module count its calls before they are made, and return the tools.

    A call too many raises LimitReachedError in the tool, which `dspy.ReAct` shows to its agent.
    """
    tools = [each for each in _find_tools(module) if not is_finish(each)]
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


def _find_tools(module: dspy.Module) -> Iterator[dspy.Tool]:
    seen: set[int] = set()
    for _, part in module.named_sub_modules():
        for value in vars(part).values():
            held = list(value.values()) if isinstance(value, Mapping) else value
            for each in held if isinstance(held, list | tuple) else [held]:
                if isinstance(each, dspy.Tool) and id(each) not in seen:
                    seen.add(id(each))
                    yield each


def _count_calls(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function, updated=())
    def count_and_call(*args: object, **kwargs: object) -> object:
        if context := current_context():
            context.count_tool_call()
        return function(*args, **kwargs)

    setattr(count_and_call, _COUNTED, True)
    return count_and_call
