"""What ends a tuning run before anything is spent."""

import io
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from rich.console import Console

from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from eval.scorers.gaia import GaiaScorer
from eval.scorers.score import Score
from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel
from optimize.pipeline.preflight import (
    check_distinct_agents,
    confirm,
    confirm_start,
    prepare_splits,
)
from optimize.questions.splits import SplitSettings, make_splits
from optimize.search.budget import BudgetSettings
from optimize.search.optimizer import SearchCost


class Same(dspy.Module):
    """Two critics with the same fields, and an agent of another kind."""

    def __init__(self, *prompts: str) -> None:
        super().__init__()
        critics = [dspy.Predict(dspy.Signature("text -> decision", prompt)) for prompt in prompts]
        self.first, self.second = critics
        self.writer = dspy.Predict(dspy.Signature("topic -> text", prompts[0]))


@dataclass
class Judging:
    """Counts what it is asked; its judge's calls cost."""

    judge: Any = "some model"
    asked: int = 0

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        self.asked += 1
        return Score(float(answer == target), "")


@dataclass
class Modest:
    name: str = "modest"
    needs_reflection: bool = True

    def check(self) -> None: ...

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        return SearchCost(min(max_metric_calls, 300), 40)

    def search(self, search: Any) -> Any: ...


@dataclass
class Gate:
    objective: str = "score"
    min_gain: float = 0.0
    margin: float = 0.02
    epochs: int = 5
    looks: int = 1


@dataclass
class Base:
    scorer: Any = field(default_factory=GaiaScorer)
    data: Any = field(default_factory=BundledDataset)
    model: Any = field(default_factory=SimulatedModel)
    system: Any = field(default_factory=lambda: SimpleNamespace(name="toy"))
    simulated: bool = True


def request(base: Base | None = None, **options: Any) -> Any:
    chosen = {
        "base": base or Base(),
        "optimizer": Modest(),
        "agents": ["plan", "solve"],
        "reflection_model": None,
        "seed": 0,
        "yes": False,
        "resume": None,
        "splits": SplitSettings(),
        "budget": BudgetSettings(),
        "shortlist": SimpleNamespace(size=3, epochs=2),
        "gate": Gate(),
        **options,
    }
    prompts = SimpleNamespace(tuned_on=None)
    return SimpleNamespace(config=SimpleNamespace(**chosen), resolved={}, prompts=prompts)


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# Splits and scorer


def test_sealed_questions_that_the_parent_was_tuned_on_are_told(console: Console) -> None:
    before = make_splits(ToyDataset(), SplitSettings(seed=1), "val")
    asked = request(Base(data=ToyDataset()), splits=SplitSettings(seed=2))
    asked.resolved, asked.prompts.tuned_on = {"split": "val"}, before.tuned_on
    splits = prepare_splits(asked, console)
    tuned_on = {each.id for each in (*before.train, *before.val)}
    known = sum(each.id in tuned_on for each in splits.sealed)
    assert 0 < known < len(splits.sealed)
    assert f"warning: {known} of the {len(splits.sealed)} sealed questions were used to tune" in shown(console)


def test_a_scorer_that_takes_anything_for_right_is_refused(console: Console) -> None:
    @dataclass
    class Generous:
        def __call__(self, question: str, answer: str | None, target: str) -> Score:
            return Score(1.0, "")

    with pytest.raises(UserError, match="nonsense"):
        prepare_splits(request(Base(scorer=Generous())), console)


def test_a_judge_is_not_asked_before_the_estimate_is_confirmed(console: Console) -> None:
    judging = Judging()
    asked = request(Base(scorer=judging, simulated=False), yes=True)
    splits = prepare_splits(asked, console)
    assert judging.asked == 0
    confirm_start(asked, splits, console)
    assert judging.asked > 0


# Confirmation


def test_nobody_is_asked_about_a_simulated_model_or_a_run_that_goes_on(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    for asked in (request(), request(Base(simulated=False), resume="latest"), request(Base(simulated=False), yes=True)):
        confirm_start(asked, prepare_splits(asked, console), console)
    asked = request(Base(simulated=False))
    with pytest.raises(UserError, match="add yes=true"):
        confirm_start(asked, prepare_splits(asked, console), console)


@pytest.mark.parametrize(
    ("reply", "begins"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False), ("q\n", False)]
)
def test_only_a_yes_begins(reply: str, begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(reply))
    if begins:
        confirm(False)
        return
    with pytest.raises(UserError, match="nothing was spent"):
        confirm(False)


def test_a_budget_too_small_for_the_sealed_test_is_refused_before_anybody_is_asked(console: Console) -> None:
    asked = request(budget=BudgetSettings(lm_calls=100))
    splits = prepare_splits(asked, console)
    with pytest.raises(UserError, match=r"budget\.lm_calls=100 is too small: the sealed test alone, 690 answers"):
        confirm_start(asked, splits, console)
    asked.config.budget = BudgetSettings(metric_calls=60)
    with pytest.raises(UserError, match=r"budget\.metric_calls=60 is too small"):
        confirm_start(asked, splits, console)


# Agents told apart


def test_two_agents_with_the_same_fields_and_prompt_are_refused() -> None:
    with pytest.raises(UserError, match=r"the agents first and second have the same fields and the same prompt"):
        check_distinct_agents(Same("Review.", "Review."), ["first"])
    check_distinct_agents(Same("Review.", "Review."), ["writer"])
    check_distinct_agents(Same("Review the plan.", "Review the answer."), ["first", "second", "writer"])
