"""Estimate of a tuning run by phase, shown before it begins, and the check that its budget allows it.

The number of answers is an upper limit. The usage of one answer is a mean with prompts as long as today's; tuned ones
are mostly longer.

    plan = build_plan(optimizer, splits, 7, budget, shortlist, gate)
    estimate = Estimate.guess(plan, config.base, reflection_model=None)
    estimate.check(budget)                 # UserError: not even the sealed test would fit
    estimate.lines(budget)                 # for the terminal
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eval.config.evaluation import EvalConfig
from eval.workflows.estimate import compute_highest_cost, find_typical_answer, list_prices
from mas.llm.prices import Price, find_price
from mas.runtime.errors import UserError
from optimize.gate.gate import GateSettings
from optimize.questions.splits import Splits
from optimize.search.budget import BudgetSettings
from optimize.search.optimizer import Optimizer
from optimize.session.config import ShortlistSettings

UNLIMITED = sys.maxsize  # metric calls of a search without a budget of them
SEALED_TEST = "sealed test"  # name of the phase
# A reflection has a few examples, each about as long as a request of the system, and a text as long as a prompt.
_EXAMPLES_A_REFLECTION = 3
_TOKENS_BRIEF, _TOKENS_OUT = 800, 600


@dataclass(frozen=True)
class Plan:
    """Maximum number of answers by phase."""

    baseline: int
    search: int | None  # None: as many as another budget allows
    reflections: int  # requests of the search for a better prompt
    shortlist: int
    sealed: int
    looks: int = 1  # at which the sealed test may stop


def build_plan(
    optimizer: Optimizer,
    splits: Splits,
    n_agents: int,
    budget: BudgetSettings,
    shortlist: ShortlistSettings,
    gate: GateSettings,
) -> Plan:
    """
    Args:
        optimizer: that will search.
        splits: of the data.
        n_agents: that are tuned.
        budget: as configured.
        shortlist: with `size` and `epochs`.
        gate: with `epochs` and `looks`.

    Raises:
        UserError: the budget leaves nothing for the search, or nothing would ever end it.
    """
    n_train, n_val = len(splits.train), len(splits.val)
    allowed = UNLIMITED if budget.metric_calls is None else budget.metric_calls
    if allowed <= 2 * n_val:
        raise UserError(
            f"budget.metric_calls={allowed} is too small: the baseline and the scoring of a single candidate take "
            f"{n_val} answers each; give it several times as many."
        )
    cost = optimizer.estimate_cost(n_train, n_val, n_agents, allowed)
    endless = cost.metric_calls >= UNLIMITED
    others = (budget.lm_calls, budget.tokens, budget.usd, budget.seconds)
    if endless and all(each is None for each in others):
        raise UserError("nothing would end the search: give budget.metric_calls, or another budget.")
    return Plan(
        baseline=n_val,
        search=None if endless else max(0, cost.metric_calls - n_val),  # the parent is scored in the baseline
        reflections=0 if endless else cost.reflection_calls,
        shortlist=(shortlist.size + 1) * shortlist.epochs * n_val,  # the parent is re-evaluated as well
        sealed=2 * gate.epochs * len(splits.sealed),
        looks=gate.looks,
    )


@dataclass(frozen=True)
class Amount:
    """Usage of an answer, a reflection or a phase."""

    lm_calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    usd: float | None = 0.0  # None: no price is known

    @property
    def tokens(self) -> float:
        return self.input_tokens + self.output_tokens

    def times(self, n: float) -> "Amount":
        usd = None if self.usd is None else self.usd * n
        return Amount(self.lm_calls * n, self.input_tokens * n, self.output_tokens * n, usd)

    def plus(self, other: "Amount") -> "Amount":
        return Amount(
            self.lm_calls + other.lm_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            None if self.usd is None or other.usd is None else self.usd + other.usd,
        )


@dataclass(frozen=True)
class Phase:
    """One line of the estimate."""

    name: str
    answers: int | None  # None: unlimited
    usage: Amount
    reflections: int = 0


@dataclass(frozen=True)
class Estimate:
    """Plan and usage. `answer` is None for a system without known usage: then only answers are counted."""

    plan: Plan
    answer: Amount | None
    reflection: Amount
    source: str
    free: bool = False  # the model is simulated: nothing is paid

    @classmethod
    def guess(
        cls, plan: Plan, base: EvalConfig, reflection_model: str | None, runs_folder: Path | None = None
    ) -> "Estimate":
        """
        Args:
            plan: of the run.
            base: the run's parts.
            reflection_model: name of the model that rewrites prompts; None: the run's.
            runs_folder: where evaluations of the same system lie; None: outputs/eval.
        """
        typical = find_typical_answer(base, runs_folder)
        if typical is None:
            return cls(plan, None, Amount(), f"what an answer takes is not known of system={base.system.name} yet")
        usd = compute_highest_cost(list_prices(base), typical.input_tokens * 1000, typical.output_tokens * 1000)
        answer = Amount(
            typical.lm_calls, typical.input_tokens, typical.output_tokens, None if usd is None else usd / 1000
        )
        prices: dict[str, Price] = getattr(base.model, "prices", {})
        price = find_price(reflection_model or base.model.name, prices)
        return cls(plan, answer, _estimate_reflection(answer, price), typical.source, bool(base.simulated))

    @property
    def phases(self) -> list[Phase]:
        plan, answer = self.plan, self.answer or Amount()
        searching = answer.times(plan.search or 0).plus(self.reflection.times(plan.reflections))
        return [
            Phase("baseline", plan.baseline, answer.times(plan.baseline)),
            Phase("search", plan.search, searching, plan.reflections),
            Phase("shortlist", plan.shortlist, answer.times(plan.shortlist)),
            Phase(SEALED_TEST, plan.sealed, answer.times(plan.sealed)),
        ]

    @property
    def total(self) -> Phase:
        phases = self.phases
        counts = [each.answers for each in phases]
        usage = Amount()
        for each in phases:
            usage = usage.plus(each.usage)
        return Phase("total", None if None in counts else sum(filter(None, counts)), usage, self.plan.reflections)

    def check(self, budget: BudgetSettings) -> None:
        """
        Raises:
            UserError: the sealed test alone would not fit into one of the budgets.
        """
        usage, gate = self.phases[-1].usage, "raise it, or lower gate.epochs"
        for option, allowed, needed in self._budgeted(budget, usage):
            if needed > allowed:
                raise UserError(
                    f"budget.{option}={allowed:g} is too small: the sealed test alone, {self.plan.sealed:,} answers, "
                    f"takes about {_format_amount(option, needed)} ({self.source}); {gate}."
                )

    def lines(self, budget: BudgetSettings) -> list[str]:
        """Return the estimate as lines for the terminal."""
        phases = [*self.phases, self.total]
        said = [f"estimate, with prompts as long as today's ({self.source}):", *(self._line(each) for each in phases)]
        if self.free:
            said.append("  nothing is paid: the model is simulated")
        return said + list(self._list_warnings(budget))

    def _line(self, phase: Phase) -> str:
        n = "" if phase.answers is None else f"{phase.answers:,} "
        counted = f"{n}answers" if n else "answers until a budget ends it"
        if phase.name == SEALED_TEST and self.plan.looks > 1:
            counted += " at most, about half without a gain"
        if phase.reflections:
            counted += f" + {phase.reflections:,} reflections"
        if self.answer is None or phase.answers is None:  # of an endless phase, a part would pass for the whole
            return f"  {phase.name:<12}{counted}"
        usage = phase.usage
        costs = "" if self.free else ", cost n/a: no price is known" if usage.usd is None else f", ${usage.usd:,.2f}"
        return (
            f"  {phase.name:<12}{counted} ≈ {usage.lm_calls:,.0f} LM calls, {usage.input_tokens:,.0f} tokens in, "
            f"{usage.output_tokens:,.0f} out{costs}"
        )

    def _list_warnings(self, budget: BudgetSettings) -> Iterator[str]:
        """Yield the budgets that will probably end the run before its plan does."""
        total, search = self.total.usage, self.phases[1].usage
        for option, allowed, needed in self._budgeted(budget, total):
            others = needed - next(each for name, _, each in self._budgeted(budget, search) if name == option)
            if others > allowed:
                yield (
                    f"warning: baseline, shortlist and sealed test take about {_format_amount(option, others)}, "
                    f"more than budget.{option}={allowed:g}: probably nothing is left for the search"
                )
            elif needed > allowed:
                yield f"budget.{option}={allowed:g} will probably end the search early"

    def _budgeted(self, budget: BudgetSettings, usage: Amount) -> Iterator[tuple[str, float, float]]:
        """Yield option, budget and need of the budgets that the estimate covers."""
        if self.answer is None:
            return
        for option, allowed, needed in (
            ("lm_calls", budget.lm_calls, usage.lm_calls),
            ("tokens", budget.tokens, usage.tokens),
            ("usd", budget.usd, 0.0 if self.free else usage.usd),
        ):
            if allowed is not None and needed is not None:
                yield option, allowed, needed


def _estimate_reflection(answer: Amount, price: Price | None) -> Amount:
    tokens_per_request = answer.input_tokens / answer.lm_calls if answer.lm_calls else 0.0
    tokens_in = _EXAMPLES_A_REFLECTION * tokens_per_request + _TOKENS_BRIEF
    usd = None if price is None else price.cost_usd(round(tokens_in), 0, _TOKENS_OUT)
    return Amount(1.0, tokens_in, _TOKENS_OUT, usd)


def _format_amount(option: str, amount: float) -> str:
    return f"${amount:,.2f}" if option == "usd" else f"{amount:,.0f} {option.replace('lm_', 'LM ')}"
