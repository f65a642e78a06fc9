"""Estimate of a tuning run by phase, shown before it begins, and the check that its budget allows it.

The number of answers is an upper limit. The usage of one answer is a mean with prompts as long as today's; tuned ones
are mostly longer.

    estimate = Estimate.guess(config, splits)
    estimate.check(config.budget)          # UserError: not even the sealed test would fit
    estimate.lines(config.budget)          # for the terminal
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from eval.execution.budget import BudgetSettings, Spend
from eval.runs.record import Record
from eval.workflows.estimate import compute_highest_cost, find_price, find_typical_answer, list_prices
from mas.llm.prices import Price
from mas.runtime.errors import UserError
from optimize.questions.splits import Splits
from optimize.search.optimizer import SearchCost
from optimize.session.config import TuneConfig

UNLIMITED = sys.maxsize  # metric calls of a search without a budget of them
SEALED_TEST = "sealed test"  # name of the phase
# A reflection has a few examples, each about as long as a request of the system, and a text as long as a prompt.
_EXAMPLES_A_REFLECTION = 3
_TOKENS_BRIEF, _TOKENS_OUT = 800, 600
_UNITS = {"lm_calls": "requests"}


@dataclass(frozen=True, kw_only=True)
class AnswerMeans:
    """Mean usage of one answer."""

    lm_calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost_usd: float | None = 0.0  # None: unknown
    seconds: float = 0.0

    @classmethod
    def of(cls, records: Sequence[Record]) -> "AnswerMeans":
        usages = [record.usage for record in records]
        costs = [usage.cost_usd for usage in usages]
        return AnswerMeans(
            lm_calls=fmean(usage.lm_calls for usage in usages),
            input_tokens=fmean(usage.input_tokens for usage in usages),
            output_tokens=fmean(usage.output_tokens for usage in usages),
            cost_usd=None if None in costs else fmean(cost or 0.0 for cost in costs),
            seconds=fmean(record.wall_seconds for record in records),
        )

    def estimate_spend(self, n_answers: int, concurrency: int) -> Spend:
        """Return the expected spend of so many answers."""
        lm_calls = round(n_answers * self.lm_calls)
        return Spend(
            lm_calls=lm_calls,
            input_tokens=round(n_answers * self.input_tokens),
            output_tokens=round(n_answers * self.output_tokens),
            cost_usd=n_answers * (self.cost_usd or 0.0),
            unknown_cost_calls=lm_calls if self.cost_usd is None else 0,
            seconds=n_answers * self.seconds / concurrency,
        )


def plan_search(config: TuneConfig, splits: Splits) -> SearchCost:
    """Return the upper limits of baseline and search together.

    Raises:
        UserError: the budget leaves nothing for the search, or nothing would ever end it.
    """
    budget, n_val = config.budget, len(splits.val)
    allowed = UNLIMITED if budget.metric_calls is None else budget.metric_calls
    if allowed <= 2 * n_val:
        raise UserError(
            f"budget.metric_calls={allowed} is too small: the baseline and the scoring of a single candidate take "
            f"{n_val} answers each; give it several times as many."
        )
    cost = config.optimizer.estimate_cost(len(splits.train), n_val, len(config.agents), allowed)
    others = (budget.lm_calls, budget.tokens, budget.usd, budget.seconds)
    if cost.metric_calls >= UNLIMITED and all(each is None for each in others):
        raise UserError("nothing would end the search: give budget.metric_calls, or another budget.")
    return cost


def count_shortlist_answers(config: TuneConfig, splits: Splits) -> int:
    """Return the number of answers of a full shortlist, the parent's included."""
    return (config.shortlist.size + 1) * config.shortlist.epochs * len(splits.val)


def count_test_answers(config: TuneConfig, splits: Splits) -> int:
    """Return the number of answers of both sides of the sealed test, if no look stops it."""
    return 2 * config.gate.epochs * len(splits.sealed)


def format_amount(option: str, amount: float) -> str:
    return f"${amount:,.4f}" if option == "usd" else f"{amount:,.0f} {_UNITS.get(option, option)}"


@dataclass(frozen=True)
class Phase:
    """One line of the estimate."""

    name: str
    answers: int | None  # None: unlimited
    usage: Spend
    reflections: int = 0


@dataclass(frozen=True)
class Estimate:
    """Answers and usage of the phases. Of a system without known usage, only answers are counted."""

    phases: list[Phase]  # baseline, search, shortlist, sealed test
    source: str
    is_known: bool
    is_free: bool  # the model is simulated: nothing is paid
    looks: int  # at which the sealed test may stop

    @classmethod
    def guess(cls, config: TuneConfig, splits: Splits) -> "Estimate":
        """
        Raises:
            UserError: the budget leaves nothing for the search, or nothing would ever end it.
        """
        base, typical = config.base, find_typical_answer(config.base)
        answer = reflection = AnswerMeans()
        if typical is not None:
            usd = compute_highest_cost(list_prices(base), typical.input_tokens * 1000, typical.output_tokens * 1000)
            usage = {name: getattr(typical, name) for name in ("lm_calls", "input_tokens", "output_tokens")}
            answer = AnswerMeans(cost_usd=0.0 if base.simulated else None if usd is None else usd / 1000, **usage)
            reflection = _estimate_reflection(answer, find_price(base, config.reflection_model or base.model.name))
        cost, n_val = plan_search(config, splits), len(splits.val)
        is_endless = cost.metric_calls >= UNLIMITED
        n_search = 0 if is_endless else max(0, cost.metric_calls - n_val)  # the parent is scored in the baseline
        reflections = 0 if is_endless else cost.reflection_calls
        n_shortlist, n_sealed = count_shortlist_answers(config, splits), count_test_answers(config, splits)
        baseline, searching, shortlist, test = (
            answer.estimate_spend(n, 1) for n in (n_val, n_search, n_shortlist, n_sealed)
        )
        searching += reflection.estimate_spend(reflections, 1)
        phases = [
            Phase("baseline", n_val, baseline),
            Phase("search", None if is_endless else n_search, searching, reflections),
            Phase("shortlist", n_shortlist, shortlist),
            Phase(SEALED_TEST, n_sealed, test),
        ]
        unknown = f"what an answer takes is not known of system={base.system.name} yet"
        source = typical.source if typical else unknown
        return cls(phases, source, typical is not None, bool(base.simulated), config.gate.looks)

    def check(self, budget: BudgetSettings) -> None:
        """
        Raises:
            UserError: the sealed test alone would not fit into one of the budgets.
        """
        test = self.phases[-1]
        for option, allowed in budget.list_limits():
            if (needed := test.usage.amount(option)) > allowed:
                raise UserError(
                    f"budget.{option}={allowed:g} is too small: the sealed test alone, {test.answers:,} answers, "
                    f"takes about {format_amount(option, needed)} ({self.source}); raise it, or lower gate.epochs."
                )

    def lines(self, budget: BudgetSettings) -> Iterator[str]:
        """Return the estimate as lines for the terminal."""
        counts, usage = [each.answers for each in self.phases], sum((each.usage for each in self.phases), Spend())
        n_answers = None if None in counts else sum(filter(None, counts))
        total = Phase("total", n_answers, usage, sum(each.reflections for each in self.phases))
        yield f"estimate, with prompts as long as today's ({self.source}):"
        for phase in (*self.phases, total):
            yield self._line(phase)
        if self.is_free:
            yield "  nothing is paid: the model is simulated"
        for option, allowed in budget.list_limits():
            if (others := (usage - self.phases[1].usage).amount(option)) > allowed:
                yield (
                    f"warning: baseline, shortlist and sealed test take about {format_amount(option, others)}, "
                    f"more than budget.{option}={allowed:g}: probably nothing is left for the search"
                )
            elif usage.amount(option) > allowed:
                yield f"budget.{option}={allowed:g} will probably end the search early"

    def _line(self, phase: Phase) -> str:
        counted = "answers until a budget ends it" if phase.answers is None else f"{phase.answers:,} answers"
        if phase.name == SEALED_TEST and self.looks > 1:
            counted += " at most, about half without a gain"
        if phase.reflections:
            counted += f" + {phase.reflections:,} reflections"
        if not self.is_known or phase.answers is None:  # of an endless phase, a part would pass for the whole
            return f"  {phase.name:<12}{counted}"
        usage = phase.usage
        price = "cost n/a: no price is known" if usage.unknown_cost_calls else f"${usage.cost_usd:,.2f}"
        return (
            f"  {phase.name:<12}{counted} ≈ {usage.lm_calls:,} LM calls, {usage.input_tokens:,} tokens in, "
            f"{usage.output_tokens:,} out{'' if self.is_free else f', {price}'}"
        )


def _estimate_reflection(answer: AnswerMeans, price: Price | None) -> AnswerMeans:
    tokens_per_request = answer.input_tokens / answer.lm_calls if answer.lm_calls else 0.0
    tokens_in = _EXAMPLES_A_REFLECTION * tokens_per_request + _TOKENS_BRIEF
    usd = None if price is None else price.cost_usd(round(tokens_in), 0, _TOKENS_OUT)
    return AnswerMeans(lm_calls=1.0, input_tokens=tokens_in, output_tokens=_TOKENS_OUT, cost_usd=usd)
