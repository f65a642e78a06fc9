"""Stack traces for records and logs: modules, lines and functions; no code, variables or folders of the machine."""

import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

MAX_FRAMES = 40  # of one exception; those in the middle are left out
MAX_CHAIN = 5  # exceptions
_PLUMBING = ("mas.runtime.trace", "contextlib")  # modules that every call passes through
_CALL = re.compile(r"[^\s:]+:\d+ in \S+")


def format_stack(error: BaseException) -> str:
    """Return the stack of an exception, outermost call first, after those of the exceptions that caused it.

    Messages are complete: secrets are removed by the caller, who knows them, before anything is cut.
    """
    return "\n".join(line for each in reversed(list(_list_chain(error))) for line in _format_one(each))


def is_call(line: str) -> bool:
    """Return whether a line of a stack is a call; the others are exceptions with their messages."""
    return _CALL.fullmatch(line) is not None


def _list_chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and len(seen) < MAX_CHAIN and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _format_one(error: BaseException) -> Iterator[str]:
    names = [
        (str(frame.f_globals.get("__name__", "?")), line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    frames = [f"{module}:{line} in {function}" for module, line, function in names if module not in _PLUMBING]
    if left_out := max(0, len(frames) - MAX_FRAMES):
        first = MAX_FRAMES // 4
        frames[first : first + left_out] = [f"… {left_out} calls …"]
    yield from frames
    message = _FOLDERS.sub("", " ".join(str(error).split()))
    yield f"{type(error).__name__}: {message}" if message else type(error).__name__


def _compile_folders() -> re.Pattern[str]:
    """Return a pattern of the folders that say where on this machine a file is."""
    project = Path(__file__).resolve().parents[2]
    places = {project, Path(sys.prefix), Path(sys.base_prefix), Path(tempfile.gettempdir()), Path.home()}
    places |= {each.resolve() for each in places}
    names = sorted({str(each) for each in places if len(each.parts) > 1}, key=len, reverse=True)
    return re.compile(rf"(?<![\w+=-])(?:{'|'.join(map(re.escape, names))})(?:/[^\s/'\":,;()\[\]]+)*/")


_FOLDERS = _compile_folders()
