"""Answers that failed because the model's server could not be reached: they say nothing about the prompts."""

from eval.runs.record import Record
from eval.runs.store import RETRIED

MIN_FAILURES = 10  # answers in a row; a shorter outage costs no more than that


def is_server_failure(record: Record) -> bool:
    """Return whether the server could not be reached, or failed, after all retries."""
    return record.error_class in RETRIED


class FailuresInARow:
    """Detects a server that is down from the answers it failed in a row. Not thread-safe."""

    def __init__(self, concurrency: int, always_failing: int = 0) -> None:
        """Set the thresholds.

        Args:
            concurrency: answers at once, all of which fail together.
            always_failing: questions that the server may fail each time without being considered down.
        """
        self._max_first = max(MIN_FAILURES, 2 * concurrency)
        self._max_repeated = max(MIN_FAILURES, always_failing + 1)
        self._first = 0  # failures of a first attempt
        self._repeated: set[str] = set()  # questions that failed again

    def observe(self, record: Record) -> str | None:
        """Count a record; return the reason to stop if it was one failure too many."""
        if not is_server_failure(record):
            self._first, self._repeated = 0, set()
        elif record.attempt == 1:
            self._first += 1
        else:
            self._repeated.add(record.sample_id)
        if self._first >= self._max_first:
            return f"the model's server has failed {self._first} answers in a row ({record.error})"
        if len(self._repeated) >= self._max_repeated:
            return f"the model's server has failed {len(self._repeated)} questions in a row once more ({record.error})"
        return None
