"""Requests that were sent and never answered, since a deadline, a reset or a stop cut them off: their cost is unknown.

The server may have gone on and billed them. Nothing is owed for what it refused, or for what was never sent.

    with noted_if_cut_off(price, bill, current):      # current.attributes["cost_usd"] = None
        response = await engine.complete(request)
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

from mas.llm.bill import Bill
from mas.llm.prices import Price
from mas.question import Payment
from mas.tracing.trace import Span

# A 5xx is among them: providers bill replies, and it has none. 408 and 504 are errors of another class.
_REFUSED = (AuthError, BillingError, InvalidRequestError, RateLimitError, ServerError)
_NEVER_SENT = (CapabilityError, ConfigurationError, LockTimeoutError)


@contextmanager
def noted_if_cut_off(price: Price | None, bill: Bill, current: Span) -> Iterator[None]:
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
