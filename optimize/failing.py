"""A model server that fails every request: answers that would all count as wrong, and a search led by them.

failures = FailuresInARow(concurrency=16)
failures.heed(record)      # None; in the end "the model's server has failed 32 answers in a row (…)"
"""

from eval.record import Record
from eval.resuming import RETRIED

LEAST = 10  # answers; an outage that is over sooner costs no more than that


def failed_by_server(record: Record) -> bool:
    """It could not be reached, or failed, after all retries: that says nothing about the prompts."""
    return record.error_class in RETRIED


class FailuresInARow:
    """Not thread-safe."""

    def __init__(self, concurrency: int) -> None:
        """
        Args:
            concurrency: answers at once, of which all fail together.
        """
        self._allowed = max(LEAST, 2 * concurrency)
        self._failures = 0

    def heed(self, record: Record) -> str | None:
        """Why to stop, if that was one too many; the run can go on later, and asks those again.

        One that failed before is no news: it may be a question that the server always fails.
        """
        if failed_by_server(record) and record.attempt > 1:
            return None
        self._failures = self._failures + 1 if failed_by_server(record) else 0
        if self._failures < self._allowed:
            return None
        return f"the model's server has failed {self._failures} answers in a row ({record.error})"
