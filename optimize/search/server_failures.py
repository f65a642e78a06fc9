"""Detection of a model server that is down, from the answers that it failed in a row."""

from eval.runs.record import Record
from eval.runs.store import RETRIED

MIN_FAILURES = 10  # answers in a row; a shorter outage costs no more than that
MIN_FAILURES_AT_END = 5  # of the last answers of work that has ended


def is_server_failure(record: Record) -> bool:
    return record.error_class in RETRIED


class FailuresInARow:
    """Detects a server that is down from the answers it failed in a row. Not thread-safe."""

    def __init__(self, concurrency: int) -> None:
        """`concurrency`: answers that fail together."""
        self._most = max(MIN_FAILURES, 2 * concurrency)
        self._number, self._error = 0, ""  # of the last ones

    def observe(self, record: Record) -> str | None:
        """Count a record; return the reason to stop if it was one failure too many."""
        self._number, self._error = (self._number + 1 if is_server_failure(record) else 0), record.error or ""
        return self._describe(self._most)

    def find_at_end(self) -> str | None:
        """Return why the server may have ended work that has ended: it failed the last answers."""
        return self._describe(MIN_FAILURES_AT_END)

    def _describe(self, least: int) -> str | None:
        if self._number < least:
            return None
        return f"the model's server has failed {self._number} answers in a row ({self._error})"
