"""A log file that many questions write to: lines gather in memory and reach the file a moment later.

A system call a line would be a twentieth of a run's CPU time. What a killed process had not handed over yet, at most
the last half second, is missing from the log and from nothing else: records do not pass here.

    with LogFile(folder / "entry_point.log") as file:
        file.write("{}\\n")
"""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

FLUSH_SECONDS = 0.5
BUFFER_BYTES = 256 * 1024


class LogFile:
    """Opened for appending. Any thread may write."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            OSError: the file cannot be written.
        """
        self._file = path.open("a", buffering=BUFFER_BYTES, encoding="utf-8")
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._failure: OSError | None = None
        threading.Thread(target=self._flush_regularly, name=f"flush {path.name}", daemon=True).start()

    def write(self, text: str) -> None:
        """
        Raises:
            OSError: the disk refuses this text, or refused an earlier one meanwhile.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            self._file.write(text)

    def flush(self) -> None:
        """Left to the thread: loggers ask for it after every line."""

    def _flush_regularly(self) -> None:
        while not self._closed.wait(FLUSH_SECONDS):
            try:
                with self._lock:
                    if not self._file.closed:
                        self._file.flush()
            except OSError as error:  # a full disk: told to whoever writes next
                self._failure = error

    def close(self) -> None:
        """Hand over what is left. Closing twice is harmless."""
        self._closed.set()
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
