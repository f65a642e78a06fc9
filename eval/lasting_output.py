"""What a command prints when nobody reads it any more: `| head` has seen enough, a pager was quit, a terminal closed.

with lasting_output():
    print("…")      # where it cannot be written any more it goes nowhere, and the command goes on

A run that is paid for must not end because of what it prints.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

_GONE = (errno.EPIPE, errno.EIO)  # the reader of a pipe; the terminal


@contextmanager
def lasting_output() -> Iterator[None]:
    """Standard output and standard error inside; both as they were outside."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Lasting(stream) if stream else stream for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream:
                stream.flush()
        sys.stdout, sys.stderr = before


class _Lasting:
    """A text stream in front of another; whatever is not about writing is the other's."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._unless_gone(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._unless_gone(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _unless_gone(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            if error.errno not in _GONE:
                raise
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())  # also what is still in the stream's buffer goes there
