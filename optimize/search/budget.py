"""What a tuning run has spent: scored answers, requests, tokens, money, time."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from eval.runs.call_log import CallLog
from mas.runtime.errors import UserError
from mas.runtime.sample_context import LimitReachedError, Payment, SampleKey


@dataclass
class Spend:
    """Replayed requests are not in it: they were paid for before."""

    metric_calls: int = 0  # answers scored in baseline and search, not those of shortlist and sealed test
    lm_calls: int = 0  # requests sent, of the system and of the reflection, retries included
    reflection_calls: int = 0  # of these
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0  # of the requests whose cost is known
    unknown_cost_calls: int = 0  # of the others
    seconds: float = 0.0  # wall time, of all sessions

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def plus(self, other: "Spend") -> "Spend":
        return Spend(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def minus(self, earlier: "Spend") -> "Spend":
        """What came since."""
        return Spend(**{name: value - getattr(earlier, name) for name, value in asdict(self).items()})


REFLECTION = SampleKey("reflection", epoch=0)  # whose requests the reflection's are; answers are numbered from 1
_UNITS = {
    "metric_calls": "scored answers",
    "lm_calls": "requests",
    "tokens": "tokens",
    "usd": "US dollars",
    "seconds": "seconds",
}


@dataclass
class BudgetSettings:
    """The `budget` part of the configuration; null: no limit."""

    metric_calls: int | None = 600  # answers scored in the search, its baseline included
    lm_calls: int | None = None  # requests, of system and reflection together, sealed test included
    tokens: int | None = None  # in and out
    usd: float | None = None  # only with models whose price is known
    seconds: float | None = None  # wall time, all sessions together

    def check(self) -> None:
        """
        Raises:
            UserError: a budget of nothing, or less.
        """
        for option in fields(self):
            value = getattr(self, option.name)
            if value is not None and not value > 0:
                raise UserError(
                    f"budget.{option.name}={value} is out of range; expected more than 0 {_UNITS[option.name]}, or "
                    "null for no limit."
                )


def read_earlier_spend(call_log: CallLog, seconds: float = 0.0) -> Spend:
    """What a run paid in earlier sessions, by the log of its calls, from which no sample was forgotten.

    A resumed search scores its answers again, so none is counted as scored yet.
    """
    total, reflection = call_log.total(), call_log.paid(REFLECTION)
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
    """Those of the system, or those of the reflection."""

    dearest_tokens: float
    dearest_usd: float
    in_flight: int = 0


@dataclass(frozen=True)
class _Account:
    """How one budget stands."""

    name: str
    budget: float | None
    used: float
    expected: float = 0.0  # of what is in flight
    kept_back: float = 0.0

    @property
    def used_up(self) -> bool:
        return self.budget is not None and self.used + self.expected >= self.budget - self.kept_back

    @property
    def sentence(self) -> str:
        unit, option = _UNITS[self.name], f"budget.{self.name}={self.budget}"
        budget = _number(self.budget or 0)
        if self.used + self.expected < (self.budget or 0):
            rest = f"{_number(self.kept_back)} of the run's {budget} {unit} are kept back for what follows"
            return f"the search has used its share: {rest} ({option})"
        if self.used < (self.budget or 0) and self.name != "lm_calls":
            return f"what is in flight may use up the rest of the run's {budget} {unit} ({option})"
        return f"the run has used its {budget} {unit} ({option})"


@dataclass
class BudgetLedger:
    """Any thread."""

    budget: BudgetSettings
    spent: Spend = field(default_factory=Spend)  # in earlier sessions; without `metric_calls`, which are counted anew
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._spend, self._began, self._lock = replace(self.spent), self.clock(), threading.Lock()
        self._kept_back = Spend()
        self._refused_request: _Account | None = None
        self._refused_answer: _Account | None = None
        priced = max(1, self.spent.lm_calls - self.spent.unknown_cost_calls)
        tokens = (self.spent.input_tokens + self.spent.output_tokens) / priced
        self._system = _Requests(tokens, self.spent.cost_usd / priced)  # the mean: the dearest is not known any more
        self._reflection = replace(self._system)

    @property
    def over(self) -> str | None:
        """Why nothing more is begun, a sentence that names the option; None: nothing has been refused.

        It stays, until `release`.
        """
        refused = self._refused_request or self._refused_answer
        return refused.sentence if refused else None

    @property
    def refused(self) -> str | None:
        """Which budget that is, by its name without `budget.`."""
        refused = self._refused_request or self._refused_answer
        return refused.name if refused else None

    def spend(self) -> Spend:
        """So far, without what is in flight."""
        with self._lock:
            return self._now()

    def take_metric_call(self) -> bool:
        """Before an answer that is to be scored; False: it may not be."""
        with self._lock:
            if self.over is None:
                self._refused_answer = next((each for each in self._of_an_answer() if each.used_up), None)
            if self.over is not None:
                return False
            self._spend.metric_calls += 1
            return True

    def open_account(self, pay: Callable[[Payment], None], reflection: bool = False) -> "LedgerAccount":
        """Return a `RunBudget` for the requests of one sample, or of the reflection.

        Args:
            pay: called with the payment of each request that was sent, also of one that the server refused for free.
            reflection: True for requests of the reflection.
        """
        return LedgerAccount(self, self._reflection if reflection else self._system, pay)

    def reserve(self, requests: _Requests) -> None:
        """Reserve one request of this kind. That the scored answers are used up is no reason to refuse it.

        Raises:
            LimitReachedError: a budget may be exceeded. Every later request is refused too, until `release`.
        """
        with self._lock:
            if self._refused_request is None:
                self._refused_request = next((each for each in self._of_a_request() if each.used_up), None)
            refused = self._refused_request
            if refused is None:
                requests.in_flight += 1
                return
        raise LimitReachedError(f"budget.{refused.name}", refused.sentence)

    def keep_back(self, amount: Spend) -> None:
        """Set aside so much of each budget for what follows the search, which ends the earlier for it."""
        with self._lock:
            self._kept_back = replace(amount)

    def release(self) -> None:
        """Give back what was set aside, and begin anew to refuse."""
        with self._lock:
            self._kept_back = Spend()
            self._refused_request = self._refused_answer = None

    def settle(self, requests: _Requests, payment: Payment | None) -> None:
        """Record how a reserved request of this kind ended; None if it was never sent."""
        with self._lock:
            requests.in_flight -= 1
            if payment is not None:
                self._pay(requests, payment)

    def _pay(self, requests: _Requests, payment: Payment) -> None:
        spend, tokens = self._spend, payment.input_tokens + payment.output_tokens
        spend.lm_calls += 1
        spend.reflection_calls += requests is self._reflection
        spend.input_tokens += payment.input_tokens
        spend.output_tokens += payment.output_tokens
        spend.cost_usd += payment.cost_usd or 0.0
        spend.unknown_cost_calls += payment.cost_usd is None
        requests.dearest_tokens = max(requests.dearest_tokens, tokens)
        requests.dearest_usd = max(requests.dearest_usd, payment.cost_usd or 0.0)

    def _now(self) -> Spend:
        return replace(self._spend, seconds=self.spent.seconds + self.clock() - self._began)

    def _of_an_answer(self) -> Iterator[_Account]:
        kept_back = self._kept_back
        yield _Account("metric_calls", self.budget.metric_calls, self._spend.metric_calls, 0, kept_back.metric_calls)
        yield self._time()

    def _of_a_request(self) -> Iterator[_Account]:
        budget, spend, kept_back = self.budget, self._spend, self._kept_back
        kinds = (self._system, self._reflection)
        yield _Account(
            "lm_calls", budget.lm_calls, spend.lm_calls, sum(each.in_flight for each in kinds), kept_back.lm_calls
        )
        yield _Account(
            "tokens",
            budget.tokens,
            spend.input_tokens + spend.output_tokens,
            sum(each.in_flight * each.dearest_tokens for each in kinds),
            kept_back.input_tokens + kept_back.output_tokens,
        )
        dearest_usd = max(each.dearest_usd for each in kinds)
        yield _Account(
            "usd",
            budget.usd,
            spend.cost_usd + spend.unknown_cost_calls * dearest_usd,
            sum(each.in_flight * each.dearest_usd for each in kinds),
            kept_back.cost_usd,
        )
        yield self._time()

    def _time(self) -> _Account:
        return _Account("seconds", self.budget.seconds, self._now().seconds, 0, self._kept_back.seconds)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


@dataclass(frozen=True)
class LedgerAccount:
    """Account in the ledger: what one sample, or the reflection, uses as its `RunBudget`."""

    ledger: BudgetLedger
    requests: _Requests
    pay: Callable[[Payment], None]

    def reserve(self) -> None:
        self.ledger.reserve(self.requests)

    def settle(self, payment: Payment | None) -> None:
        self.ledger.settle(self.requests, payment)
        if payment is not None:
            self.pay(payment)
