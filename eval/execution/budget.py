"""Budget of a tuning run, and what it has spent in all its sessions."""

import operator
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace

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

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def __sub__(self, other: "Spend") -> "Spend":
        return Spend(**{name: value - getattr(other, name) for name, value in vars(self).items()})

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


def read_earlier_spend(call_log: CallLog, seconds: float = 0.0) -> Spend:
    """Return what earlier sessions paid, by the run's call log.

    `metric_calls` is 0: a resumed search scores and counts its answers again.
    """
    total, reflection = call_log.sum_total(), call_log.sum_paid(REFLECTION_KEY)
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
class Budget:
    """Spending of a run, in all its sessions, against its limits. Thread-safe."""

    settings: BudgetSettings
    earlier: Spend = field(default_factory=Spend)  # of earlier sessions
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._spend, self._started, self._lock = replace(self.earlier), self.clock(), threading.Lock()
        self._held_back = Spend()
        self._refusal: tuple[str, str] | None = None  # the budget that refused, and the sentence why
        priced = max(1, self.earlier.lm_calls - self.earlier.unknown_cost_calls)
        # Of the system and of the reflection, whose requests are dearer. The most of a request is at first the mean.
        self._in_flight = [0, 0]
        self._max_tokens, self._max_usd = [self.earlier.tokens / priced] * 2, [self.earlier.cost_usd / priced] * 2

    @property
    def refusal(self) -> str | None:
        """The sentence why requests or answers are refused; None if none was refused since the last `release`."""
        return self._refusal and self._refusal[1]

    @property
    def refused_budget(self) -> str | None:
        """The name of the budget that refused, without `budget.`."""
        return self._refusal and self._refusal[0]

    def spend(self) -> Spend:
        with self._lock:
            return self._current_spend()

    def take_metric_call(self) -> bool:
        """Count an answer that is to be scored; return False if the budget does not allow it."""
        with self._lock:
            self._refusal = self._refusal or self._find_refusal("metric_calls", "seconds")
            if self._refusal is None:
                self._spend.metric_calls += 1
            return self._refusal is None

    def open_account(self, pay: Callable[[Payment], None], reflection: bool = False) -> "Account":
        """Return a `RunBudget` for the requests of one sample, or of the reflection.

        `pay` receives the payment of each request that was sent, including those the server refused for free.
        """
        return Account(self, reflection, pay)

    def reserve(self, reflection: bool) -> None:
        """Reserve one request. A used-up budget of scored answers does not refuse requests.

        LimitReachedError: a budget may be exceeded. All later requests are refused too, until `release`.
        """
        with self._lock:
            if self._refusal is None or self._refusal[0] == "metric_calls":
                self._refusal = self._find_refusal("lm_calls", "tokens", "usd", "seconds") or self._refusal
            if self._refusal is not None and self._refusal[0] != "metric_calls":
                name, message = self._refusal
                raise LimitReachedError(f"budget.{name}", message)
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
            self._held_back, self._refusal = Spend(), None

    def _current_spend(self) -> Spend:
        return replace(self._spend, seconds=self.earlier.seconds + self.clock() - self._started)

    def _find_refusal(self, *names: str) -> tuple[str, str] | None:
        """Return the refusal by the first of these budgets that the requests in flight may use up.

        A request in flight counts as the most expensive one of its kind so far, one of unknown cost as that of any.
        """
        spend, of_kinds = self._current_spend(), ([1, 1], self._max_tokens, self._max_usd)
        spend.cost_usd += spend.unknown_cost_calls * max(self._max_usd)
        expected_of = (sum(map(operator.mul, self._in_flight, each)) for each in of_kinds)
        in_flight = dict(zip(("lm_calls", "tokens", "usd"), expected_of, strict=True))
        for name in names:
            budget, used, held_back = getattr(self.settings, name), spend.amount(name), self._held_back.amount(name)
            expected = in_flight.get(name, 0)
            if budget is None or used + expected < budget - held_back:
                continue
            option, total = f"budget.{name}={budget}", f"{_number(budget)} {_UNITS[name]}"
            if used + expected < budget:
                rest = f"{_number(held_back)} of the run's {total} are reserved for the phases after it"
                return name, f"the search has used its share: {rest} ({option})"
            if used < budget and name != "lm_calls":
                return name, f"the requests in flight may use up the rest of the run's {total} ({option})"
            return name, f"the run has used its {total} ({option})"
        return None


@dataclass
class Account:
    """`RunBudget` of one sample, or of the reflection."""

    budget: Budget
    is_reflection: bool
    pay: Callable[[Payment], None]
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
    """Return the budget of a session with what earlier ones have spent, in so many seconds."""
    searched = store.read_result("search") or {}  # its answers count once it is finished: not repeated
    saved = store.read_state().spend  # of a phase; payments have no copy if the database was lost
    paid = vars(read_earlier_spend(call_log, seconds))
    earlier = Spend(**{name: max(value, saved.get(name, 0)) for name, value in paid.items()})
    return Budget(limits, replace(earlier, metric_calls=searched.get("metric_calls", 0)))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def format_amount(option: str, amount: float) -> str:
    return f"${amount:,.4f}" if option == "usd" else f"{amount:,.0f} {_UNITS[option]}"
