"""What a tuning run is expected to take, and what its budget makes of that."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig, read_config
from mas.llm.prices import Price
from mas.runtime.errors import UserError
from optimize.pipeline.cost_estimate import UNLIMITED, Amount, Estimate, Plan, _estimate_reflection, build_plan
from optimize.questions.splits import Splits
from optimize.search.budget import BudgetSettings
from optimize.search.optimizer import SearchCost
from tests.eval.config.test_evaluation import composed

LOCAL = ("model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1", "model.name=mine")
SHORTLIST, GATE = SimpleNamespace(size=3, epochs=2), SimpleNamespace(epochs=5, looks=1)
PLAN = Plan(baseline=10, search=100, reflections=20, shortlist=80, sealed=200)
ANSWER, REFLECTION = Amount(2.5, 1000, 100, 0.01), Amount(1, 2000, 600, 0.0026)
ESTIMATE = Estimate(PLAN, ANSWER, REFLECTION, "as planted")
FREE = BudgetSettings(metric_calls=None)


@dataclass
class Greedy:
    """Takes all that it may."""

    name: str = "greedy"
    needs_reflection: bool = True

    def check(self) -> None: ...

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        return SearchCost(max_metric_calls, max_metric_calls // 6 * n_agents)

    def search(self, search: Any) -> Any: ...


@dataclass
class Modest(Greedy):
    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        return SearchCost(min(max_metric_calls, 5 * n_val), 0)


def splits(train: int = 20, val: int = 30, sealed: int = 50) -> Splits:
    def some(n: int, of: str) -> tuple[Sample, ...]:
        return tuple(Sample(f"{of}{number}", f"{of} {number}?", target="1") for number in range(n))

    return Splits.of((some(train, "a"), some(val, "b"), some(sealed, "c")))


def base(*overrides: str) -> EvalConfig:
    return read_config(composed(*LOCAL, *overrides))


def test_each_phase_is_counted() -> None:
    plan = build_plan(Greedy(), splits(), 7, BudgetSettings(metric_calls=600), SHORTLIST, GATE)
    assert plan == Plan(baseline=30, search=570, reflections=700, shortlist=4 * 2 * 30, sealed=2 * 5 * 50)


def test_a_budget_that_not_a_single_candidate_fits_into_is_refused() -> None:
    with pytest.raises(UserError, match=r"budget.metric_calls=60 is too small: .* take 30 answers each"):
        build_plan(Greedy(), splits(), 7, BudgetSettings(metric_calls=60), SHORTLIST, GATE)


def test_a_search_that_nothing_would_end_is_refused() -> None:
    with pytest.raises(UserError, match="nothing would end the search"):
        build_plan(Greedy(), splits(), 7, FREE, SHORTLIST, GATE)
    assert build_plan(Modest(), splits(), 7, FREE, SHORTLIST, GATE).search == 120
    plan = build_plan(Greedy(), splits(), 7, BudgetSettings(metric_calls=None, usd=3.0), SHORTLIST, GATE)
    assert plan.search is None
    estimate = Estimate(plan, Amount(1, 1, 1, 1), Amount(), "x")
    assert estimate.lines(FREE)[2] == "  search      answers until a budget ends it"
    assert estimate.total.answers is None
    assert UNLIMITED > 10**12


def test_the_numbers_follow_an_earlier_run_and_the_models_prices(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    empty = summarise([], RunDetails(run_id="before"))
    usage = replace(empty.usage, lm_calls=40, input_tokens=40_000, output_tokens=4_000)
    (tmp_path / "before" / "summary.json").write_text(
        json.dumps(replace(empty, n=10, usage=usage, model="mine").to_dict())
    )
    (tmp_path / "before" / "config.yaml").write_text(yaml.safe_dump({"system": {"name": "gaia"}}))
    found = base()
    found.model.prices = {"mine": Price(1.0, 10.0), "writer": Price(10.0, 100.0)}
    estimate = Estimate.guess(PLAN, found, "writer", tmp_path)
    assert estimate.answer == Amount(4.0, 4000.0, 400.0, 0.008)
    assert estimate.reflection == Amount(1.0, 3800.0, 600, 0.098)
    lines = estimate.lines(FREE)
    assert lines == [
        "estimate, with prompts as long as today's (from before):",
        "  baseline    10 answers ≈ 40 LM calls, 40,000 tokens in, 4,000 out, $0.08",
        "  search      100 answers + 20 reflections ≈ 420 LM calls, 476,000 tokens in, 52,000 out, $2.76",
        "  shortlist   80 answers ≈ 320 LM calls, 320,000 tokens in, 32,000 out, $0.64",
        "  sealed test 200 answers ≈ 800 LM calls, 800,000 tokens in, 80,000 out, $1.60",
        "  total       390 answers + 20 reflections ≈ 1,580 LM calls, 1,636,000 tokens in, 168,000 out, $5.08",
    ]


def test_a_test_with_looks_takes_at_most_all_of_its_answers() -> None:
    *_, line, _ = Estimate.guess(replace(PLAN, looks=4), base(), None).lines(FREE)
    assert line.startswith("  sealed test 200 answers at most, about half without a gain ≈ ")


def test_without_a_price_the_money_is_not_known_and_a_simulated_model_costs_nothing() -> None:
    assert all(
        line.endswith("cost n/a: no price is known") for line in Estimate.guess(PLAN, base(), None).lines(FREE)[1:]
    )
    simulated = Estimate.guess(PLAN, read_config(composed("model=offline")), None).lines(FREE)
    assert simulated[-1] == "  nothing is paid: the model is simulated"
    assert "$" not in "".join(simulated)


def test_of_an_unknown_system_only_answers_are_counted() -> None:
    found = base()
    found.system.name = "mine"
    estimate = Estimate.guess(PLAN, found, None)
    assert estimate.lines(BudgetSettings(lm_calls=1))[0] == (
        "estimate, with prompts as long as today's (what an answer takes is not known of system=mine yet):"
    )
    assert estimate.lines(BudgetSettings(lm_calls=1))[-1] == "  total       390 answers + 20 reflections"
    estimate.check(BudgetSettings(lm_calls=1))


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (
            {"lm_calls": 499},
            r"budget.lm_calls=499 is too small: the sealed test alone, 200 answers, takes about 500 LM calls",
        ),
        ({"tokens": 219_000}, "takes about 220,000 tokens"),
        ({"usd": 1.99}, r"takes about \$2.00"),
    ],
)
def test_a_budget_that_not_even_the_sealed_test_fits_into_is_refused(budget: dict[str, Any], words: str) -> None:
    ESTIMATE.check(BudgetSettings(lm_calls=500, tokens=220_000, usd=2.0))
    with pytest.raises(UserError, match=words):
        ESTIMATE.check(BudgetSettings(**budget))


def test_a_budget_that_will_cut_the_run_short_is_told() -> None:
    assert len(ESTIMATE.lines(BudgetSettings(lm_calls=10_000, usd=100.0))) == 6
    assert ESTIMATE.lines(BudgetSettings(usd=3.5))[6:] == ["budget.usd=3.5 will probably end the search early"]
    assert ESTIMATE.lines(BudgetSettings(lm_calls=700))[6:] == [
        "warning: baseline, shortlist and sealed test take about 725 LM calls, more than budget.lm_calls=700: probably "
        "nothing is left for the search"
    ]


def test_an_unknown_cost_refuses_nothing() -> None:
    estimate = replace(ESTIMATE, answer=replace(ANSWER, usd=None))
    assert estimate.lines(FREE)[0] == "estimate, with prompts as long as today's (as planted):"
    assert estimate.total.usage.lm_calls == 390 * 2.5 + 20
    assert estimate.total.usage.usd is None
    estimate.check(BudgetSettings(usd=0.01))
    assert (
        replace(estimate, free=True).lines(BudgetSettings(usd=0.01))[-1] == "  nothing is paid: the model is simulated"
    )


def test_the_smallest_budget_of_answers_is_one_more_than_two_scorings() -> None:
    plan = build_plan(Greedy(), splits(), 7, BudgetSettings(metric_calls=61), SHORTLIST, GATE)
    assert (plan.search, plan.reflections) == (31, 70)
    with pytest.raises(UserError) as refused:
        build_plan(Greedy(), splits(), 7, BudgetSettings(metric_calls=60), SHORTLIST, GATE)
    assert str(refused.value) == (
        "budget.metric_calls=60 is too small: the baseline and the scoring of a single candidate take 30 answers each; "
        "give it several times as many."
    )


@pytest.mark.parametrize("option", ["lm_calls", "tokens", "usd", "seconds"])
def test_any_other_budget_ends_a_search_without_a_number_of_answers(option: str) -> None:
    budget = BudgetSettings(**{"metric_calls": None, option: 5})
    gate = SimpleNamespace(epochs=4, looks=3)
    plan = build_plan(Greedy(), splits(sealed=7), 7, budget, SHORTLIST, gate)  # type: ignore[arg-type]
    assert plan == Plan(baseline=30, search=None, reflections=0, shortlist=240, sealed=56, looks=3)


def test_a_search_that_takes_less_than_the_baseline_takes_nothing_more() -> None:
    class Idle(Greedy):
        def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
            assert (n_train, n_val, n_agents, max_metric_calls) == (20, 30, 7, 600)
            return SearchCost(n_val - 1, 4)

    plan = build_plan(Idle(), splits(), 7, BudgetSettings(metric_calls=600), SHORTLIST, GATE)
    assert (plan.search, plan.reflections) == (0, 4)
    assert Plan(1, 2, 3, 4, 5).looks == 1


def test_amounts_are_multiplied_and_added_part_by_part() -> None:
    one, other = Amount(1.5, 10, 3, 0.5), Amount(2, 7, 4, 0.25)
    assert one.tokens == 13
    assert one.times(4) == Amount(6.0, 40, 12, 2.0)
    assert one.plus(other) == Amount(3.5, 17, 7, 0.75)
    unknown = replace(one, usd=None)
    assert unknown.times(4) == Amount(6.0, 40, 12, None)
    assert unknown.plus(other) == other.plus(unknown) == Amount(3.5, 17, 7, None)
    assert Amount() == Amount(0.0, 0.0, 0.0, 0.0)


def test_an_endless_search_and_the_whole_run_have_no_numbers() -> None:
    lines = replace(ESTIMATE, plan=replace(PLAN, search=None, reflections=0)).lines(FREE)
    assert lines == [
        "estimate, with prompts as long as today's (as planted):",
        "  baseline    10 answers ≈ 25 LM calls, 10,000 tokens in, 1,000 out, $0.10",
        "  search      answers until a budget ends it",
        "  shortlist   80 answers ≈ 200 LM calls, 80,000 tokens in, 8,000 out, $0.80",
        "  sealed test 200 answers ≈ 500 LM calls, 200,000 tokens in, 20,000 out, $2.00",
        "  total       answers until a budget ends it",
    ]


def test_a_simulated_run_shows_its_usage_and_keeps_any_budget_in_usd() -> None:
    simulated, budget = replace(ESTIMATE, free=True), BudgetSettings(metric_calls=None, usd=0.01)
    simulated.check(budget)
    assert simulated.lines(budget)[1:] == [
        "  baseline    10 answers ≈ 25 LM calls, 10,000 tokens in, 1,000 out",
        "  search      100 answers + 20 reflections ≈ 270 LM calls, 140,000 tokens in, 22,000 out",
        "  shortlist   80 answers ≈ 200 LM calls, 80,000 tokens in, 8,000 out",
        "  sealed test 200 answers ≈ 500 LM calls, 200,000 tokens in, 20,000 out",
        "  total       390 answers + 20 reflections ≈ 995 LM calls, 430,000 tokens in, 51,000 out",
        "  nothing is paid: the model is simulated",
    ]
    with pytest.raises(UserError):
        ESTIMATE.check(budget)


@pytest.mark.parametrize(
    ("option", "total", "others", "told"),
    [("lm_calls", 995, 725, "725 LM calls"), ("tokens", 481_000, 319_000, "319,000 tokens")],
)
def test_a_budget_is_told_of_from_one_below_what_is_needed(option: str, total: int, others: int, told: str) -> None:
    def said(allowed: int) -> list[str]:
        return ESTIMATE.lines(BudgetSettings(metric_calls=None, **{option: allowed}))[6:]

    early = "budget.{}={:g} will probably end the search early"
    assert said(total) == []
    assert said(total - 1) == [early.format(option, total - 1)]
    assert said(others) == [early.format(option, others)]
    assert said(others - 1) == [
        f"warning: baseline, shortlist and sealed test take about {told}, more than budget.{option}={others - 1:g}: "
        "probably nothing is left for the search"
    ]


def test_each_budget_is_told_of_and_the_refusal_says_what_to_do() -> None:
    assert ESTIMATE.lines(BudgetSettings(metric_calls=None, lm_calls=800, tokens=400_000, usd=3.0))[6:] == [
        "budget.lm_calls=800 will probably end the search early",
        "budget.tokens=400000 will probably end the search early",
        "budget.usd=3 will probably end the search early",
    ]
    with pytest.raises(UserError) as refused:
        ESTIMATE.check(BudgetSettings(metric_calls=None, lm_calls=499, usd=1.0))
    assert str(refused.value) == (
        "budget.lm_calls=499 is too small: the sealed test alone, 200 answers, takes about 500 LM calls (as planted); "
        "raise it, or lower gate.epochs."
    )


@pytest.mark.parametrize(
    ("answer", "price", "expected"),
    [
        (Amount(4, 1000, 100, 0.1), Price(1000.0, 10_000.0), Amount(1.0, 1550.0, 600, 7.55)),
        (Amount(4, 1000, 100, 0.1), None, Amount(1.0, 1550.0, 600, None)),
        (Amount(0, 1000, 100, 0.1), None, Amount(1.0, 800.0, 600, None)),
    ],
)
def test_a_reflection_reads_three_requests_and_a_brief(answer: Amount, price: Price | None, expected: Amount) -> None:
    assert _estimate_reflection(answer, price) == expected
