"""Answers that failed because the model's server could not be reached: they say nothing about the prompts."""

from eval.runs.record import Record
from eval.runs.store import RETRIED

MIN_FAILURES = 10  # answers; an outage that is over sooner costs no more than that


def is_server_failure(record: Record) -> bool:
    """It could not be reached, or failed, after all retries: that says nothing about the prompts."""
    return record.error_class in RETRIED


class FailuresInARow:
    """Not thread-safe."""

    def __init__(self, concurrency: int, always_failing: int = 0) -> None:
        """
        Args:
            concurrency: answers at once, of which all fail together.
            always_failing: questions that the server may fail each time without being taken to be down.
        """
        self._allowed, self._allowed_again = max(MIN_FAILURES, 2 * concurrency), max(MIN_FAILURES, always_failing + 1)
        self._failures = 0
        self._again: set[str] = set()  # questions

    def heed(self, record: Record) -> str | None:
        """Why to stop, if that was one too many; the run can go on later, and asks those again."""
        if not is_server_failure(record):
            self._failures, self._again = 0, set()
        elif record.attempt == 1:
            self._failures += 1
        else:
            self._again.add(record.sample_id)
        if self._failures >= self._allowed:
            return f"the model's server has failed {self._failures} answers in a row ({record.error})"
        if len(self._again) >= self._allowed_again:
            return f"the model's server has failed {len(self._again)} questions in a row once more ({record.error})"
        return None
