"""Budgets of a tuning run, and the ledger of its spending: scored answers, requests, tokens, money, time.

ledger = BudgetLedger(BudgetSettings(usd=5.0))
account = ledger.open_account(call_log_pay)
account.reserve()                       # LimitReachedError if the request may exceed a budget
account.settle(payment)
ledger.spend().cost_usd                 # 0.0013
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace

from eval.execution.projection import UNKNOWN, Progress, Projection, project
from eval.runs.call_log import CallLog
from mas.runtime.errors import UserError
from mas.runtime.sample_context import LimitReachedError, Payment, SampleKey

REFLECTION = SampleKey("reflection", epoch=0)  # pays for the reflection's requests; epochs of answers begin at 1
_UNITS = {
    "metric_calls": "scored answers",
    "lm_calls": "requests",
    "tokens": "tokens",
    "usd": "US dollars",
    "seconds": "seconds",
}


@dataclass
class Spend:
    """Resources used. Replayed requests do not count: they were paid before."""

    metric_calls: int = 0  # answers scored in baseline and search, without those of shortlist and sealed test
    lm_calls: int = 0  # requests sent by the system and the reflection, retries included
    reflection_calls: int = 0  # the reflection's part of `lm_calls`
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0  # of the requests with a known cost
    unknown_cost_calls: int = 0  # requests with an unknown cost
    seconds: float = 0.0  # wall time of all sessions, without the time in which the process was stopped

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def __sub__(self, other: "Spend") -> "Spend":
        return Spend(**{name: value - getattr(other, name) for name, value in asdict(self).items()})

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass
class BudgetSettings:
    """The `budget` section of the configuration; null means no limit."""

    metric_calls: int | None = 600  # answers scored in baseline and search
    lm_calls: int | None = None  # requests of system and reflection together, sealed test included
    tokens: int | None = None  # input and output together
    usd: float | None = None  # requires models with a known price
    seconds: float | None = None  # wall time of all sessions together

    def check(self) -> None:
        """Check that every budget is positive.

        Raises:
            UserError: a budget is zero or negative.
        """
        for option in fields(self):
            value = getattr(self, option.name)
            if value is not None and not value > 0:
                raise UserError(
                    f"budget.{option.name}={value} is out of range; expected more than 0 {_UNITS[option.name]}, or "
                    "null for no limit."
                )


def read_earlier_spend(call_log: CallLog, seconds: float = 0.0) -> Spend:
    """Return what earlier sessions paid, by the run's call log.

    `metric_calls` is 0: a resumed search scores and counts its answers again.
    """
    total, reflection = call_log.sum_total(), call_log.sum_paid(REFLECTION)
    return Spend(
        lm_calls=total.lm_calls,
        reflection_calls=reflection.lm_calls,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cost_usd=total.known_cost_usd,
        unknown_cost_calls=total.unknown_cost_calls,
        seconds=seconds,
    )


@dataclass
class _Requests:
    """Requests in flight of one kind: the system's or the reflection's."""

    max_tokens: float  # of a single request so far
    max_usd: float
    in_flight: int = 0


@dataclass(frozen=True)
class _BudgetState:
    """State of one budget at one moment."""

    name: str
    budget: float | None
    used: float
    expected: float = 0.0  # estimate for the requests in flight
    held_back: float = 0.0

    @property
    def is_used_up(self) -> bool:
        return self.budget is not None and self.used + self.expected >= self.budget - self.held_back

    @property
    def refusal_message(self) -> str:
        unit, option = _UNITS[self.name], f"budget.{self.name}={self.budget}"
        budget = _number(self.budget or 0)
        if self.used + self.expected < (self.budget or 0):
            rest = f"{_number(self.held_back)} of the run's {budget} {unit} are reserved for the phases after it"
            return f"the search has used its share: {rest} ({option})"
        if self.used < (self.budget or 0) and self.name != "lm_calls":
            return f"the requests in flight may use up the rest of the run's {budget} {unit} ({option})"
        return f"the run has used its {budget} {unit} ({option})"


@dataclass
class BudgetLedger:
    """Spending of a run against its budgets. Thread-safe."""

    budget: BudgetSettings
    earlier: Spend = field(default_factory=Spend)  # of earlier sessions
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._spend, self._started, self._lock = replace(self.earlier), self.clock(), threading.Lock()
        self._held_back = Spend()
        self._refused_request: _BudgetState | None = None
        self._refused_answer: _BudgetState | None = None
        priced = max(1, self.earlier.lm_calls - self.earlier.unknown_cost_calls)
        self._system = _Requests(self.earlier.tokens / priced, self.earlier.cost_usd / priced)  # means: no maximum kept
        self._reflection = replace(self._system)

    @property
    def refusal(self) -> str | None:
        """The sentence why requests or answers are refused; None if none was refused since the last `release`."""
        refused = self._refused_request or self._refused_answer
        return refused.refusal_message if refused else None

    @property
    def refused_budget(self) -> str | None:
        """The name of the budget that refused, without `budget.`."""
        refused = self._refused_request or self._refused_answer
        return refused.name if refused else None

    def spend(self) -> Spend:
        """Return the spending so far, without the requests in flight."""
        with self._lock:
            return self._current_spend()

    def take_metric_call(self) -> bool:
        """Count an answer that is to be scored; return False if the budget does not allow it."""
        with self._lock:
            if self.refusal is None:
                self._refused_answer = next((each for each in self._answer_accounts() if each.is_used_up), None)
            if self.refusal is not None:
                return False
            self._spend.metric_calls += 1
            return True

    def open_account(self, pay: Callable[[Payment], None], reflection: bool = False) -> "LedgerAccount":
        """Return a `RunBudget` for the requests of one sample, or of the reflection.

        Args:
            pay: receives the payment of each request that was sent, including those the server refused for free.
            reflection: the requests are the reflection's.
        """
        return LedgerAccount(self, self._reflection if reflection else self._system, pay)

    def reserve(self, requests: _Requests) -> None:
        """Reserve one request of this kind. A used-up budget of scored answers does not refuse requests.

        Raises:
            LimitReachedError: a budget may be exceeded. All later requests are refused too, until `release`.
        """
        with self._lock:
            if self._refused_request is None:
                self._refused_request = next((each for each in self._request_accounts() if each.is_used_up), None)
            refused = self._refused_request
            if refused is None:
                requests.in_flight += 1
                return
        raise LimitReachedError(f"budget.{refused.name}", refused.refusal_message)

    def settle(self, requests: _Requests, payment: Payment | None) -> None:
        """Record the payment of a reserved request of this kind; None if it was never sent."""
        with self._lock:
            requests.in_flight -= 1
            if payment is not None:
                self._pay(requests, payment)

    def hold_back(self, amount: Spend) -> None:
        """Hold back a part of each budget for the phases after the search."""
        with self._lock:
            self._held_back = replace(amount)

    def release(self) -> None:
        """Release what was held back, and forget earlier refusals."""
        with self._lock:
            self._held_back = Spend()
            self._refused_request = self._refused_answer = None

    def project_rest(self, at_once: int) -> Projection:
        """Return the time left and the cost of the whole run, if the search uses its budget of scored answers.

        Known only during the search; what is held back for the phases after it is included.
        """
        with self._lock:
            spend, rest, planned = self._current_spend(), self._held_back, self.budget.metric_calls
        if planned is None or not rest.lm_calls:
            return UNKNOWN
        cost_usd = None if spend.unknown_cost_calls else spend.cost_usd
        search = project(Progress(spend.metric_calls, planned, at_once), spend.seconds, cost_usd)
        if search.eta_seconds is None:
            return UNKNOWN
        cost_usd = None if search.cost_usd is None else search.cost_usd + rest.cost_usd
        return Projection(search.eta_seconds + rest.seconds, cost_usd)

    def _pay(self, requests: _Requests, payment: Payment) -> None:
        spend, tokens = self._spend, payment.input_tokens + payment.output_tokens
        spend.lm_calls += 1
        spend.reflection_calls += requests is self._reflection
        spend.input_tokens += payment.input_tokens
        spend.output_tokens += payment.output_tokens
        spend.cost_usd += payment.cost_usd or 0.0
        spend.unknown_cost_calls += payment.cost_usd is None
        requests.max_tokens = max(requests.max_tokens, tokens)
        requests.max_usd = max(requests.max_usd, payment.cost_usd or 0.0)

    def _current_spend(self) -> Spend:
        return replace(self._spend, seconds=self.earlier.seconds + self.clock() - self._started)

    def _answer_accounts(self) -> Iterator[_BudgetState]:
        budget, spend, held_back = self.budget, self._spend, self._held_back
        yield _BudgetState("metric_calls", budget.metric_calls, spend.metric_calls, 0, held_back.metric_calls)
        yield self._time_account()

    def _request_accounts(self) -> Iterator[_BudgetState]:
        budget, spend, held_back = self.budget, self._spend, self._held_back
        kinds = (self._system, self._reflection)
        in_flight = sum(each.in_flight for each in kinds)
        tokens_in_flight = sum(each.in_flight * each.max_tokens for each in kinds)
        usd_in_flight = sum(each.in_flight * each.max_usd for each in kinds)
        used_usd = spend.cost_usd + spend.unknown_cost_calls * max(each.max_usd for each in kinds)
        yield _BudgetState("lm_calls", budget.lm_calls, spend.lm_calls, in_flight, held_back.lm_calls)
        yield _BudgetState("tokens", budget.tokens, spend.tokens, tokens_in_flight, held_back.tokens)
        yield _BudgetState("usd", budget.usd, used_usd, usd_in_flight, held_back.cost_usd)
        yield self._time_account()

    def _time_account(self) -> _BudgetState:
        return _BudgetState("seconds", self.budget.seconds, self._current_spend().seconds, 0, self._held_back.seconds)


@dataclass(frozen=True)
class LedgerAccount:
    """`RunBudget` of one sample, or of the reflection, in a ledger."""

    ledger: BudgetLedger
    requests: _Requests
    pay: Callable[[Payment], None]

    def reserve(self) -> None:
        self.ledger.reserve(self.requests)

    def settle(self, payment: Payment | None) -> None:
        self.ledger.settle(self.requests, payment)
        if payment is not None:
            self.pay(payment)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
