"""Accounting of one request: reserved in the run's budget before it is sent, settled once its outcome is known.

with reserve_budget(context) as reservation:              # LimitReachedError: nothing more may be sent
    reservation.pay(Payment(100, 0, 20, cost_usd=0.0013))
"""

from collections.abc import Iterator
from contextlib import contextmanager

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

from mas.llm.dspy_engine import NeverSentError
from mas.llm.prices import Price
from mas.runtime.sample_context import Payment, SampleContext
from mas.runtime.trace import Span

# Errors that cost nothing. 5xx too: providers bill replies, and it has none. 408 and 504 are errors of another class.
_REFUSED = (AuthError, BillingError, InvalidRequestError, RateLimitError, ServerError)
_NEVER_SENT = (NeverSentError, CapabilityError, ConfigurationError, LockTimeoutError)


class BudgetReservation:
    """Reservation of one request in the run's budget, settled exactly once however the request ends."""

    def __init__(self, context: SampleContext) -> None:
        context.reserve_lm_call()
        self._budget, self._is_settled = context.budget, False

    def pay(self, payment: Payment) -> None:
        """Settle a request that was answered, or aborted and perhaps billed."""
        self._settle(payment)

    def refuse(self) -> None:
        """Settle a request that the server refused without charge."""
        self._settle(Payment(cost_usd=0.0, refused=True))

    def close(self) -> None:
        """Release the reservation if nothing has settled it: the request was never sent."""
        if not self._is_settled:
            self._settle(None)

    def _settle(self, payment: Payment | None) -> None:
        self._is_settled = True
        self._budget.settle(payment)


@contextmanager
def reserve_budget(context: SampleContext) -> Iterator[BudgetReservation]:
    """Reserve one request for the block; release the reservation at its end unless it was settled.

    Raises:
        LimitReachedError: a limit of the sample or the run's budget is used up.
    """
    reservation = BudgetReservation(context)
    try:
        yield reservation
    finally:
        reservation.close()


@contextmanager
def record_aborted_cost(price: Price | None, reservation: BudgetReservation, current: Span) -> Iterator[None]:
    """Settle the reservation when the block fails: free if the server refused, else with an unknown cost."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, _REFUSED):
            reservation.refuse()
        elif not isinstance(error, _NEVER_SENT):
            is_free = price is not None and not (price.input_usd_per_million or price.output_usd_per_million)
            cost_usd = 0.0 if is_free else None
            current.attributes["cost_usd"] = cost_usd
            reservation.pay(Payment(cost_usd=cost_usd))
        raise
