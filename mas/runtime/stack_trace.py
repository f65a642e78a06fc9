"""Stack traces for records and logs: modules, lines, functions; no code, variables or folders."""

import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from mas.runtime.errors import walk_chain

MAX_FRAMES = 40  # of one exception; those in the middle are left out
MAX_CHAIN = 5  # exceptions
_PLUMBING = ("mas.runtime.trace", "contextlib")  # modules that every call passes through
_CALL = re.compile(r"[^\s:]+:\d+ in \S+")
_PLACES = {Path(__file__).parents[2], Path(sys.prefix), Path(sys.base_prefix), Path(tempfile.gettempdir()), Path.home()}
_NAMES = sorted({str(each) for place in _PLACES for each in (place, place.resolve())} - {"/"}, key=len, reverse=True)
# Folders that say where on this machine a file is.
_FOLDERS = re.compile(rf"(?<![\w+=-])(?:{'|'.join(map(re.escape, _NAMES))})(?:/[^\s/'\":,;()\[\]]+)*/")


def format_stack(error: BaseException) -> str:
    """Return the stack of an exception, outermost call first, after those of the exceptions that caused it.

    Messages are complete: secrets are removed by the caller, who knows them, before anything is cut.
    """
    chain = list(islice(walk_chain(error, contexts=True), MAX_CHAIN))
    return "\n".join(line for each in reversed(chain) for line in _format_one(each))


def is_call(line: str) -> bool:
    """Return whether a line of a stack is a call; the others are exceptions with their messages."""
    return _CALL.fullmatch(line) is not None


def _format_one(error: BaseException) -> Iterator[str]:
    calls = [
        f"{module}:{line} in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (module := str(frame.f_globals.get("__name__", "?"))) not in _PLUMBING
    ]
    if left_out := max(0, len(calls) - MAX_FRAMES):
        calls[MAX_FRAMES // 4 : MAX_FRAMES // 4 + left_out] = [f"… {left_out} calls …"]
    yield from calls
    message = _FOLDERS.sub("", " ".join(str(error).split()))
    yield f"{type(error).__name__}: {message}" if message else type(error).__name__
