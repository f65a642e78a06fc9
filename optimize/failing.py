"""A model server that fails every request: answers that would all count as wrong, and a search led by them.

failures = FailuresInARow(concurrency=16)
failures.heed(record)      # None; in the end "the model's server has failed 32 answers in a row (…)"

An answer that failed before is no news when it fails again: the server may always fail its question. So of those the
different questions are counted, and apart.
"""

from eval.record import Record
from eval.resuming import RETRIED

LEAST = 10  # answers; an outage that is over sooner costs no more than that


def failed_by_server(record: Record) -> bool:
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
        self._allowed, self._allowed_again = max(LEAST, 2 * concurrency), max(LEAST, always_failing + 1)
        self._failures = 0
        self._again: set[str] = set()  # questions

    def heed(self, record: Record) -> str | None:
        """Why to stop, if that was one too many; the run can go on later, and asks those again."""
        if not failed_by_server(record):
            self._failures, self._again = 0, set()
        elif record.attempt == 1:
            self._failures += 1
        else:
            self._again.add(record.example_id)
        if self._failures >= self._allowed:
            return f"the model's server has failed {self._failures} answers in a row ({record.error})"
        if len(self._again) >= self._allowed_again:
            return f"the model's server has failed {len(self._again)} questions in a row once more ({record.error})"
        return None
