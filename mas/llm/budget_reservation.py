"""One request on the accounts of its question and its run: reserved before it is sent, settled once its end is known.

with billed(context) as bill:                        # LimitReachedError: nothing may be sent any more
    bill.pay(Payment(100, 0, 20, cost_usd=0.0013))    # or bill.refused(); neither: it was never sent
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dspy._vendor.lm15.transports import ConnectError
from dspy._vendor.lm15.transports import TransportError as NetworkError
from dspy.lm15 import (
    AuthError,
    BillingError,
    CapabilityError,
    ConfigurationError,
    InvalidRequestError,
    LockTimeoutError,
    RateLimitError,
    ServerError,
)

from mas.llm.prices import Price
from mas.runtime.sample_context import Payment, SampleContext
from mas.runtime.trace import Span

_NOTHING_OWED = Payment(cost_usd=0.0, refused=True)


class BudgetReservation:
    """Reservation of one request in the run's budget, settled exactly once however the request ends."""

    def __init__(self, context: SampleContext) -> None:
        context.reserve_lm_call()
        self._budget, self._settled = context.budget, False

    def pay(self, payment: Payment) -> None:
        """It was answered, or cut off and perhaps billed."""
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
        self._budget.settle(payment)


@contextmanager
def reserve_budget(context: SampleContext) -> Iterator[BudgetReservation]:
    """
    Raises:
        LimitReachedError: the question, or the run that it belongs to, may not ask any more.
    """
    bill = BudgetReservation(context)
    try:
        yield bill
    finally:
        bill.close()


# A 5xx is among them: providers bill replies, and it has none. 408 and 504 are errors of another class.
_REFUSED = (AuthError, BillingError, InvalidRequestError, RateLimitError, ServerError)
_NEVER_SENT = (CapabilityError, ConfigurationError, LockTimeoutError)


@contextmanager
def record_aborted_cost(price: Price | None, bill: BudgetReservation, current: Span) -> Iterator[None]:
    """What ends the request inside goes on its way; the span and the run's account say what it may have cost."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, _REFUSED):
            bill.refused()
        elif not _never_sent(error):
            is_free = price is not None and not (price.input_usd_per_million or price.output_usd_per_million)
            cost_usd = 0.0 if is_free else None
            current.attributes["cost_usd"] = cost_usd
            bill.pay(Payment(cost_usd=cost_usd))
        raise


def _never_sent(error: BaseException) -> bool:
    if isinstance(error, _NEVER_SENT):
        return True
    return isinstance(error.__cause__, ConnectError) or type(error.__cause__) is NetworkError  # no free connection
