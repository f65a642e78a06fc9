"""One request on the accounts of its question and its run: reserved before it is sent, settled once its end is known.

with billed(question) as bill:                        # LimitReachedError: nothing may be sent any more
    bill.pay(Payment(100, 0, 20, cost_usd=0.0013))    # or bill.refused(); neither: it was never sent
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mas.question import Payment, Question

_NOTHING_OWED = Payment(cost_usd=0.0)


class Bill:
    """However the request ends, `Question.reserve` is answered exactly once: what is in flight is never miscounted."""

    def __init__(self, question: Question) -> None:
        self._question, self._settle, self._settled = question, question.reserve_lm_call(), False

    def pay(self, payment: Payment) -> None:
        """It was answered, or cut off and perhaps billed."""
        self._question.spent(payment)
        self._end(payment)

    def refused(self) -> None:
        """It was sent, and the server did nothing for it."""
        self._end(_NOTHING_OWED)

    def close(self) -> None:
        """Nothing more is to come of it."""
        if not self._settled:
            self._end(None)

    def _end(self, payment: Payment | None) -> None:
        self._settled = True
        self._settle(payment)


@contextmanager
def billed(question: Question) -> Iterator[Bill]:
    """
    Raises:
        LimitReachedError: the question, or the run that it belongs to, may not ask any more.
    """
    bill = Bill(question)
    try:
        yield bill
    finally:
        bill.close()
