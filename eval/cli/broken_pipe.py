"""What a command prints when it can be written no more: `| head` has seen enough, a terminal closed, a disk is full.

with lasting_output() as output:
    print("…")      # what cannot be written goes nowhere, and the command goes on
output.lost         # "No space left on device"; None: nothing was lost that anybody waits for

A run that is paid for must not end because of what it prints.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

_UNREAD = (errno.EPIPE, errno.EIO)  # the reader of a pipe is gone; the terminal


class Output:
    """What became of it."""

    lost: str | None = None


@contextmanager
def survive_broken_pipe() -> Iterator[Output]:
    """Standard output and standard error inside; both as they were outside."""
    before, output = (sys.stdout, sys.stderr), Output()
    sys.stdout, sys.stderr = (_Lasting(stream, output) if stream else stream for stream in before)
    try:
        yield output
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream:
                stream.flush()
        sys.stdout, sys.stderr = before


class _Lasting:
    """A text stream in front of another; whatever is not about writing is the other's."""

    def __init__(self, stream: TextIO, output: Output) -> None:
        self._stream, self._output = stream, output

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
            if error.errno not in _UNREAD:
                self._output.lost = error.strerror
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())  # also what is still in the stream's buffer goes there
