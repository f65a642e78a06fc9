"""Budget of a tuning run, and what it has spent in all its sessions."""

import operator
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from eval.config.evaluation import require
from eval.runs.call_log import CallLog
from eval.runs.store import RunStore
from mas.runtime.sample_context import LimitReachedError, Payment, SampleKey

REFLECTION_KEY = SampleKey("reflection", epoch=0)  # pays for the reflection's requests; epochs of answers begin at 1
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

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def amount(self, option: str) -> float:
        """Return what counts towards the budget of this name."""
        found: float = self.cost_usd if option == "usd" else getattr(self, option)
        return found


@dataclass
class BudgetSettings:
    """The `budget` section of the configuration; null means no limit."""

    metric_calls: int = 600  # answers scored in baseline and search
    lm_calls: int | None = None  # requests of system and reflection together, sealed test included
    tokens: int | None = None  # input and output together
    usd: float | None = None  # requires models with a known price
    seconds: float | None = None  # wall time of all sessions together

    def check(self) -> None:
        """Check that every budget is positive, or raise a UserError."""
        for option in fields(self):
            value, expected = getattr(self, option.name), f"more than 0 {_UNITS[option.name]}, or null for no limit"
            require(value is None or value > 0, f"budget.{option.name}", value, expected)

    def list_limits(self) -> list[tuple[str, float]]:
        """Return option and limit of each budget of a whole run."""
        limits = {name: getattr(self, name) for name in ("lm_calls", "tokens", "usd", "seconds")}
        return [(name, limit) for name, limit in limits.items() if limit is not None]


@dataclass
class Budget:
    """Spending of a run, in all its sessions, against its limits. Thread-safe."""

    settings: BudgetSettings
    earlier: Spend = field(default_factory=Spend)  # of earlier sessions
    refusal: str | None = field(default=None, init=False)  # why requests or answers are refused, since `release`
    refused_budget: str | None = field(default=None, init=False)  # the name of that budget, without `budget.`

    def __post_init__(self) -> None:
        self._spend, self._started, self._lock = replace(self.earlier), time.monotonic(), threading.RLock()
        self._held_back = Spend()
        priced = max(1, self.earlier.lm_calls - self.earlier.unknown_cost_calls)
        # Of the system and of the reflection, whose requests are dearer. The most of a request is at first the mean.
        self._in_flight = [0, 0]
        self._max_tokens, self._max_usd = [self.earlier.tokens / priced] * 2, [self.earlier.cost_usd / priced] * 2

    def spend(self) -> Spend:
        with self._lock:
            return replace(self._spend, seconds=self.earlier.seconds + time.monotonic() - self._started)

    def take_metric_call(self) -> bool:
        """Count an answer that is to be scored; return False if the budget does not allow it."""
        with self._lock:
            if self.refusal is None:
                self._check("metric_calls", "seconds")
            self._spend.metric_calls += self.refusal is None
            return self.refusal is None

    def reserve(self, reflection: bool) -> None:
        """Reserve one request. A used-up budget of scored answers does not refuse requests.

        LimitReachedError: a budget may be exceeded. All later requests are refused too, until `release`.
        """
        with self._lock:
            if self.refused_budget in (None, "metric_calls"):
                self._check("lm_calls", "tokens", "usd", "seconds")
            if self.refused_budget not in (None, "metric_calls"):
                raise LimitReachedError(f"budget.{self.refused_budget}", str(self.refusal))
            self._in_flight[reflection] += 1

    def settle(self, payment: Payment | None, reflection: bool) -> None:
        """Record the payment of a reserved request; None if it was never sent."""
        with self._lock:
            self._in_flight[reflection] -= 1
            if payment is None:
                return
            spend, cost_usd = self._spend, payment.cost_usd or 0.0
            spend.lm_calls += 1
            spend.reflection_calls += reflection
            spend.input_tokens += payment.input_tokens
            spend.output_tokens += payment.output_tokens
            spend.cost_usd += cost_usd
            spend.unknown_cost_calls += payment.cost_usd is None
            tokens = payment.input_tokens + payment.output_tokens
            self._max_tokens[reflection] = max(self._max_tokens[reflection], tokens)
            self._max_usd[reflection] = max(self._max_usd[reflection], cost_usd)

    def hold_back(self, amount: Spend) -> None:
        """Hold back a part of each budget for the phases after the search."""
        with self._lock:
            self._held_back = replace(amount)

    def release(self) -> None:
        """Release what was held back, and forget earlier refusals."""
        with self._lock:
            self._held_back, self.refusal, self.refused_budget = Spend(), None, None

    def _check(self, *names: str) -> None:
        """Refuse from now on if the requests in flight may use up one of these budgets.

        A request in flight counts as the most expensive one of its kind so far, one of unknown cost as that of any.
        """
        spend, of_kinds = self.spend(), ([1, 1], self._max_tokens, self._max_usd)
        spend.cost_usd += spend.unknown_cost_calls * max(self._max_usd)
        expected_of = (sum(map(operator.mul, self._in_flight, each)) for each in of_kinds)
        in_flight = dict(zip(("lm_calls", "tokens", "usd"), expected_of, strict=True))
        for name in names:
            budget, used, held_back = getattr(self.settings, name), spend.amount(name), self._held_back.amount(name)
            expected = used + in_flight.get(name, 0)
            if budget is None or expected < budget - held_back:
                continue
            total = f"{_number(budget)} {_UNITS[name]}"
            if expected < budget:
                why = f"the search has used its share: {_number(held_back)} of the run's {total} are reserved for the "
                why += "phases after it"
            elif used < budget and name != "lm_calls":
                why = f"the requests in flight may use up the rest of the run's {total}"
            else:
                why = f"the run has used its {total}"
            self.refused_budget, self.refusal = name, f"{why} (budget.{name}={budget})"
            return


@dataclass
class Account:
    """`RunBudget` of one sample, or of the reflection."""

    budget: Budget
    pay: Callable[[Payment], None]  # is called with each request that was sent, also if the server refused it for free
    is_reflection: bool = False
    has_refused: bool = False  # an agent may swallow the error

    def reserve(self) -> None:
        try:
            self.budget.reserve(self.is_reflection)
        except LimitReachedError:
            self.has_refused = True
            raise

    def settle(self, payment: Payment | None) -> None:
        self.budget.settle(payment, self.is_reflection)
        if payment is not None:
            self.pay(payment)


def open_budget(limits: BudgetSettings, store: RunStore, call_log: CallLog, seconds: float) -> Budget:
    """Return the budget of a session with what earlier ones have spent, in so many seconds, by the run's call log.

    Answers of a search count once it is finished: a resumed search scores and counts its answers again.
    """
    total, searched = call_log.sum_total(), store.read_result("search") or {}
    paid = {
        "lm_calls": total.lm_calls,
        "reflection_calls": call_log.sum_paid(REFLECTION_KEY).lm_calls,
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
        "cost_usd": total.known_cost_usd,
        "unknown_cost_calls": total.unknown_cost_calls,
        "seconds": seconds,
    }
    saved = store.read_state().spend  # of a phase; payments have no copy if the database was lost
    earlier: dict[str, Any] = {name: max(value, saved.get(name, 0)) for name, value in paid.items()}
    return Budget(limits, Spend(**earlier, metric_calls=searched.get("metric_calls", 0)))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def format_amount(option: str, amount: float) -> str:
    return f"${amount:,.4f}" if option == "usd" else f"{amount:,.0f} {_UNITS[option]}"
