"""The exception that a user sees as a sentence, failures of external agents, and stacks.

Stacks in records and logs are modules, lines and functions: no code, variables or folders.
"""

import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_PLUMBING = ("mas.runtime.trace", "contextlib")  # modules that every call passes through
MAX_FRAMES = 40  # the innermost of an exception
MAX_CHAIN = 5  # the newest exceptions: a log keeps the beginning of a stack, and the newest is its end
_PLACES = [Path(__file__).parents[2], Path.home(), *map(Path, (sys.prefix, sys.base_prefix, tempfile.gettempdir()))]
_NAMES = sorted({str(each) for place in _PLACES for each in (place, place.resolve())} - {"/"}, key=len, reverse=True)
# Folders that say where on this machine a file is.
_FOLDERS = re.compile(rf"(?<![\w+=-])(?:{'|'.join(map(re.escape, _NAMES))})(?:/[^\s/'\":,;()\[\]]+)*/")


class UserError(Exception):
    """A mistake of the user, as one sentence: what was wrong, what was expected, what to do next.

    Commands print it without a traceback and exit with 1, before anything is spent.
    """


class AgentUnavailableError(Exception):
    """Someone's own agent could not be reached, was too slow, or failed: it may pass."""


class AgentReplyError(Exception):
    """Someone's own agent answered with something that is no answer, or refused the question."""


def walk_chain(error: BaseException | None, *, contexts: bool = False) -> Iterator[BaseException]:
    """Yield an error and those that caused it, newest first, each once: it can be among its own causes.

    With `contexts`, also what was being handled where no cause is named, even if it was raised `from None`.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (error.__context__ if contexts else None)


def format_stack(error: BaseException) -> str:
    """Return the stack of an exception, outermost call first, after those of its causes.

    Messages are complete: the caller, who knows the secrets, removes them before anything is cut.
    """
    chain = [*islice(walk_chain(error, contexts=True), MAX_CHAIN)]
    return "\n".join(line for each in reversed(chain) for line in _format_one(each))


def _format_one(error: BaseException) -> Iterator[str]:
    for frame, line in [*traceback.walk_tb(error.__traceback__)][-MAX_FRAMES:]:
        module = str(frame.f_globals.get("__name__", "?"))
        if module not in _PLUMBING:
            yield f"{module}:{line} in {frame.f_code.co_name}"
    message = _FOLDERS.sub("", " ".join(str(error).split()))
    yield f"{type(error).__name__}: {message}" if message else type(error).__name__
