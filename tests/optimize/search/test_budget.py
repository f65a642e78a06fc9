"""What a tuning run may spend: what is refused, when, in which words, and by how much a budget can be exceeded."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.benchmarks.dataset import Sample
from eval.execution.budget import REFLECTION_KEY, Account, Budget, BudgetSettings, Spend, open_budget
from eval.execution.runner import SampleRunner
from eval.runs.call_log import CallLog
from eval.runs.record import Record
from eval.runs.run_info import RunState
from eval.runs.store import RunStore
from eval.scorers.gaia import GaiaScorer
from mas.llm.profiles.model import AgentModel
from mas.runtime.sample_context import LimitReachedError, Payment, RunBudget, SampleContext, SampleKey
from mas.simulation import SimulatedModel
from tests.eval.execution.sample_run import SampleRun

FREE = Payment(cost_usd=0.0)
NO_LIMIT = BudgetSettings()


def ledger(spent: Spend | None = None, **budget: Any) -> Budget:
    return Budget(BudgetSettings(**budget), spent or Spend())


def cost(usd: float | None = 0.0, tokens: int = 0) -> Payment:
    return Payment(input_tokens=tokens, cost_usd=usd)


def reserve(ledger: Budget, reflection: bool = False) -> RunBudget:
    account = Account(ledger, lambda payment: None, reflection)
    account.reserve()
    return account


def pay(ledger: Budget, payment: Payment | None, reflection: bool = False) -> None:
    reserve(ledger, reflection).settle(payment)


def refusal(of: Budget, reflection: bool = False) -> LimitReachedError:
    with pytest.raises(LimitReachedError) as raised:
        reserve(of, reflection)
    assert str(raised.value) == of.refusal
    return raised.value


def test_requests_are_counted_exactly_with_those_in_flight() -> None:
    held = ledger(lm_calls=3)
    first, second, third = (reserve(held) for _ in range(3))
    error = refusal(held)
    assert error.limit == "budget.lm_calls"
    assert str(error) == "the run has used its 3 requests (budget.lm_calls=3)"
    for account in (first, second):
        account.settle(FREE)
    third.settle(None)  # it was never sent
    assert held.spend().lm_calls == 2
    refusal(held)
    assert held.refusal == str(error), "what was refused once stays refused"


def test_a_request_that_was_never_sent_makes_room_for_another() -> None:
    held = ledger(lm_calls=1)
    reserve(held).settle(None)
    reserve(held).settle(FREE)
    assert held.spend().lm_calls == 1


def test_money_in_flight_is_taken_to_be_as_much_as_the_dearest_request() -> None:
    held = ledger(usd=1.0)
    pay(held, cost(0.3))
    pay(held, cost(0.1))
    in_flight = [reserve(held) for _ in range(2)]  # 0.4 spent, then 0.7 expected
    error = refusal(held)
    assert str(error) == "the requests in flight may use up the rest of the run's 1 US dollars (budget.usd=1.0)"
    for account in in_flight:
        account.settle(cost(0.1))
    assert held.spend().cost_usd == pytest.approx(0.6)
    held.release()
    pay(held, cost(0.4))
    assert str(refusal(held)) == "the run has used its 1 US dollars (budget.usd=1.0)"


def test_answers_are_counted_and_their_end_refuses_no_request() -> None:
    held = ledger(metric_calls=2)
    assert [held.take_metric_call() for _ in range(4)] == [True, True, False, False]
    assert held.refusal == "the run has used its 2 scored answers (budget.metric_calls=2)"
    pay(held, FREE)
    assert held.spend().metric_calls == 2


def test_no_answer_is_begun_once_a_request_was_refused() -> None:
    held = ledger(lm_calls=1)
    reserve(held)
    refusal(held)
    assert not held.take_metric_call()


def test_what_is_kept_back_ends_the_search_earlier_and_is_there_afterwards() -> None:
    held = ledger(lm_calls=5, usd=1.0)
    held.hold_back(Spend(lm_calls=3, cost_usd=0.5))
    pay(held, cost(0.1))
    pay(held, cost(0.1))
    error = refusal(held)
    assert str(error) == (
        "the search has used its share: 3 of the run's 5 requests are reserved for the phases after it "
        "(budget.lm_calls=5)"
    )
    held.release()
    assert held.refusal is None
    for _ in range(3):
        pay(held, cost(0.1))
    assert str(refusal(held)) == "the run has used its 5 requests (budget.lm_calls=5)"


# ---------------------------------------------------------------- the bound

Requests = list[tuple[bool, int, bool]]  # of the reflection, its tokens, and whether the next begins before it ends


@given(
    budget=st.integers(1, 300),
    requests=st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.booleans()), max_size=60),
)
def test_in_any_order_a_budget_is_exceeded_by_less_than_the_requests_in_flight_cost(
    budget: int, requests: Requests
) -> None:
    held, seen = ledger(tokens=budget), [0, 0]
    in_flight: list[tuple[RunBudget, bool, int]] = []
    last: list[int] = []  # tokens of those in flight when the last one was let go
    known = True  # as dear ones of the same kind had been answered by then
    for reflection, tokens, goes_on in requests:
        with suppress(LimitReachedError):
            in_flight.append((reserve(held, reflection), reflection, tokens))
            last = [each for _, _, each in in_flight]
            known = all(each <= seen[kind] for _, kind, each in in_flight)
        if not goes_on:
            _settle_all(in_flight, seen)
    _settle_all(in_flight, seen)
    beyond = held.spend().input_tokens - budget
    assert beyond < max(1, sum(last))
    assert not known or beyond < max(1, *last, 0)


def _settle_all(in_flight: list[tuple[RunBudget, bool, int]], seen: list[int]) -> None:
    for account, reflection, tokens in in_flight:
        account.settle(cost(tokens=tokens))
        seen[reflection] = max(seen[reflection], tokens)
    in_flight.clear()


# ---------------------------------------------------------------- in a run


def test_what_earlier_sessions_paid_is_known_from_the_log_of_calls(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    log, held = CallLog(store), Budget(NO_LIMIT)
    for sample_key in (
        SampleKey("q1"),
        SampleKey("q1", epoch=2),
        SampleKey("reflection"),
        REFLECTION_KEY,
        REFLECTION_KEY,
    ):
        paid = lambda payment, sample_key=sample_key: log.pay(sample_key, payment)  # noqa: E731
        account = Account(held, paid, is_reflection=sample_key == REFLECTION_KEY)
        for payment in (Payment(100, 10, 20, 0.25), None):
            account.reserve()
            account.settle(payment)
    account = Account(held, lambda payment: log.pay(SampleKey("q2"), payment))
    account.reserve()
    account.settle(Payment())
    store.close()
    with RunStore(tmp_path / "run.db") as store:
        before = open_budget(NO_LIMIT, store, CallLog(store), seconds=7.0).earlier
    assert before == Spend(0, 6, 2, 500, 100, 1.25, 1, 7.0)
    assert before.lm_calls == held.spend().lm_calls
    resumed = ledger(before, lm_calls=8, usd=1.75)
    reserve(resumed)
    assert refusal(resumed).limit == "budget.usd", "1.25 + 0.25 for the unknown one + 0.25 in flight; 0.25 is the mean"


class Asking:
    """A program that asks the simulated model so many times."""

    def __init__(self, times: int) -> None:
        self.times, self.lm = times, SimulatedModel().create_lm(AgentModel())

    async def acall(self, question: str, file: object = None, inputs: object = None) -> dict[str, Any]:
        with dspy.context(lm=self.lm):
            for number in range(self.times):
                with suppress(ValueError):
                    await self.lm.acall(f"{question} {number}")
        return {"final_answer": "42", "final_reasoning_trace": "because"}


def test_a_question_that_the_run_cannot_pay_for_is_a_row_of_the_limit_class() -> None:
    records: list[Record] = []
    held = ledger(lm_calls=5)
    runner = SampleRunner(
        run_id="run-1",
        program=Asking(3),
        scorer=GaiaScorer(),
        deadline_seconds=30.0,
        redact=lambda text: text,
        open_context=lambda sample_key: SampleContext(sample_key, budget=Account(held, lambda _: None)),
    )
    running = SampleRun(runner, records.append, concurrency=1)
    asyncio.run(running.run([(Sample(name, f"{name}?", target="42"), SampleKey(name)) for name in "ab"]))
    first, second = records
    assert (first.error, first.score) == (None, 1.0)
    assert (second.error_class, second.limit, second.score) == ("limit", "budget.lm_calls", None)
    assert second.error == "the run has used its 5 requests (budget.lm_calls=5)"
    assert held.spend().lm_calls == 5


def test_what_was_paid_counts_also_if_the_database_of_the_payments_was_lost(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_state(RunState(spend=vars(Spend(metric_calls=9, lm_calls=7, cost_usd=2.0))))
        call_log = CallLog(store)
        call_log.pay(SampleKey("q1"), Payment(100, 0, 20, 0.5))
        spent = open_budget(BudgetSettings(usd=5.0), store, call_log, 3.0).spend()
    assert (spent.metric_calls, spent.lm_calls, spent.cost_usd) == (0, 7, 2.0)
    assert (spent.input_tokens, spent.output_tokens) == (100, 20)
