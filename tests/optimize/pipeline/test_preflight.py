"""What ends a tuning run before anything is spent, and the one reflection that is tried."""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request as LMRequest
from dspy.lm15 import Response
from dspy.utils.exceptions import LMServerError
from rich.console import Console

from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from eval.runs.record import Record, Usage
from eval.scorers.gaia import GaiaScorer
from eval.scorers.score import Score
from mas.llm.profiles.model import AgentModel
from mas.runtime.errors import UserError
from mas.runtime.sample_context import LimitReachedError
from mas.simulation import SimulatedModel
from optimize.gate.verdict import EarlyVerdictError
from optimize.pipeline.preflight import (
    AnswerMeans,
    Baseline,
    check_distinct_agents,
    check_reflection_model,
    confirm,
    confirm_start,
    prepare_splits,
    try_reflection,
)
from optimize.questions.splits import SplitSettings, make_splits
from optimize.search.budget import BudgetSettings, Spend
from optimize.search.optimizer import SearchCost
from optimize.search.optimizers.prompt_rewriter import BRIEF
from tests.optimize.planted_runs import Obedient, Planted, planted_run
from tests.scripted_model import UNREADABLE, Answer, Reply, ScriptedModel, _response, all_text

NEW: Answer = {"new_instruction": "Report one whole number."}


class Rewriter(ScriptedModel):
    """A reflection model with these replies, in turn; the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(lambda agent, request: UNREADABLE)
        self.answers = list(answers)

    def respond(self, request: LMRequest) -> Response:
        self.requests.append(("reflection", request))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return _response(request, answer)


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


def test_the_splits_are_shown_and_the_scorer_is_tried(console: Console) -> None:
    splits = prepare_splits(request(), console)
    assert len(splits.sealed) == 69
    assert shown(console) == "questions: 69 training, 69 validation, 69 sealed test\n"


def test_a_named_split_is_shared_out_and_warnings_are_shown(console: Console) -> None:
    @dataclass
    class AllOfOne(ToyDataset):
        sealed_level = "1"

        def load(self, split: str) -> Any:
            loaded = super().load(split)
            return type(loaded)(tuple(each for each in loaded.samples if each.level == "1"))

    asked = request(Base(data=AllOfOne()))
    asked.resolved = {"split": "test"}
    splits = prepare_splits(asked, console)
    assert {each.id.split("-")[2] for each in (*splits.train, *splits.val, *splits.sealed)} == {"test"}
    assert "warning: data=toy has level 1 alone: 50% of it is learnt from" in shown(console)


def test_sealed_questions_that_the_parent_was_tuned_on_are_told(console: Console) -> None:
    before = make_splits(ToyDataset(), SplitSettings(seed=1), "val")
    asked = request(Base(data=ToyDataset()), splits=SplitSettings(seed=2))
    asked.resolved, asked.prompts.tuned_on = {"split": "val"}, before.tuned_on
    splits = prepare_splits(asked, console)
    tuned_on = {each.id for each in (*before.train, *before.val)}
    known = sum(each.id in tuned_on for each in splits.sealed)
    assert 0 < known < len(splits.sealed)
    assert f"warning: {known} of the {len(splits.sealed)} sealed questions were used to tune" in shown(console)


def test_with_the_same_splits_as_the_parents_nothing_is_told(console: Console) -> None:
    asked = request(Base(data=ToyDataset()))
    asked.prompts.tuned_on = make_splits(ToyDataset(), SplitSettings()).tuned_on
    prepare_splits(asked, console)
    assert "warning" not in shown(console)


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


def test_it_is_told_what_can_be_shown_and_what_it_takes_before_it_is_asked(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    asked = request(Base(simulated=False))
    with pytest.raises(UserError, match=r"^not begun; nothing was spent\.$"):
        confirm_start(asked, prepare_splits(asked, console), console)
    lines = shown(console).splitlines()
    assert lines[1].startswith("power: 69 sealed questions, 5 answers each: a true gain of 12 points passes the gate")
    assert lines[2].startswith("estimate, with prompts as long as today's (")
    assert [line.split(" answers")[0].split()[-1] for line in lines[3:8]] == ["69", "231", "552", "690", "1,542"]


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


def test_where_costs_are_the_aim_the_margin_is_told(console: Console) -> None:
    asked = request(gate=Gate(objective="cost"))
    confirm_start(asked, prepare_splits(asked, console), console)
    assert "mostly fail a margin of 2 points" in shown(console)


# Agents told apart


def test_two_agents_with_the_same_fields_and_prompt_are_refused() -> None:
    with pytest.raises(UserError, match=r"the agents first and second have the same fields and the same prompt"):
        check_distinct_agents(Same("Review.", "Review."), ["first"])
    check_distinct_agents(Same("Review.", "Review."), ["writer"])
    check_distinct_agents(Same("Review the plan.", "Review the answer."), ["first", "second", "writer"])


# Reflection


@dataclass
class Run:
    """As much of a tuning run as is needed."""

    reflection_lm: Any
    config: Any = field(default_factory=lambda: SimpleNamespace(agents=["first"], redact=lambda text: text))
    parent: Any = field(default_factory=lambda: SimpleNamespace(prompts=None))
    prompts: Sequence[str] = ("Review the plan.", "Review the answer.")
    halted: Exception | None = None
    inside: bool = False

    def build_program(self, prompts: Any) -> Any:
        return Same(*self.prompts)

    @contextmanager
    def use_reflection(self) -> Iterator[None]:
        self.inside = True
        yield

    def check_stopped(self) -> None:
        if self.halted:
            raise self.halted


def lm(model: ScriptedModel) -> Any:
    return model.create_lm(AgentModel())


def test_a_readable_reflection_is_one_request_made_as_the_search_makes_it() -> None:
    model = Rewriter(NEW)
    assert try_reflection(lm(model)) == "Report one whole number."
    (text,) = (all_text(each) for _, each in model.requests)
    assert " ".join(BRIEF.split()) in " ".join(text.split())
    assert "crates" in text
    assert all(sample.question not in text for sample in BundledDataset().load("train").samples)


def test_the_simulated_reflection_passes() -> None:
    assert "crates" in try_reflection(SimulatedModel().create_reflection_lm())


@pytest.mark.parametrize("bad", [UNREADABLE, {"new_instruction": " "}, Reply("[[ ## new_instruct", "length")])
def test_one_bad_reply_is_forgiven_and_two_are_not(bad: Answer) -> None:
    first_try = 2 if bad is UNREADABLE else 1  # DSPy asks once more, for JSON
    assert try_reflection(lm(Rewriter(*[bad] * first_try, NEW))) == "Report one whole number."
    with pytest.raises(EarlyVerdictError, match="could not be read, 2 times") as caught:
        try_reflection(lm(Rewriter(bad)))
    assert caught.value.finish_reason == "reflection_unparsable"
    assert "\n" not in str(caught.value)


def test_a_model_that_cannot_be_asked_is_the_user_s_to_mend() -> None:
    run = Run(lm(Rewriter(LMServerError("down"))))
    with pytest.raises(UserError, match="the model that rewrites prompts could not be asked"):
        check_reflection_model(run)  # type: ignore[arg-type]
    assert run.inside
    run.halted = EarlyVerdictError("budget", "interrupted")
    with pytest.raises(EarlyVerdictError, match="interrupted"):
        check_reflection_model(run)  # type: ignore[arg-type]


def test_a_budget_that_is_used_up_ends_the_run() -> None:
    run = Run(lm(Rewriter(LimitReachedError("budget.usd", "the run has used its $1"))))
    with pytest.raises(EarlyVerdictError, match=r"the run has used its \$1, before there was a verdict") as caught:
        check_reflection_model(run)  # type: ignore[arg-type]
    assert caught.value.finish_reason == "budget"


def test_agents_that_cannot_be_told_apart_are_found_before_anything_is_asked() -> None:
    model = Rewriter(NEW)
    with pytest.raises(UserError, match="the agents first and second"):
        check_reflection_model(Run(lm(model), prompts=("Review.", "Review.")))  # type: ignore[arg-type]
    assert model.requests == []
    check_reflection_model(Run(lm(model)))  # type: ignore[arg-type]
    assert len(model.requests) == 1


def test_each_validation_question_is_asked_once_and_what_it_took_is_known(tmp_path: Path) -> None:
    model = Obedient()
    tuned = planted_run(tmp_path, model=model, optimizer=Planted([]))
    measured = tuned.read("baseline")
    assert (measured["val_score"], measured["n_questions"], measured["lm_calls"]) == (0.2, 10, 3)
    assert measured["ci95"][0] < 0.2 < measured["ci95"][1]
    assert len(model.requests) == 30
    assert measured["cost_usd"] == pytest.approx(tuned.verdict["spend"]["cost_usd"] / 10)
    assert measured["cost_usd"] > 0
    assert "  accuracy 20.0% on 10 questions" in tuned.out


def test_means_are_of_all_answers_and_one_unknown_cost_makes_the_mean_unknown() -> None:
    def record(calls: int, tokens: int, cost_usd: float | None, seconds: float) -> Record:
        usage = Usage(calls, input_tokens=tokens, output_tokens=1, cost_usd=cost_usd)
        return Record("r", "q", 1, 1, "t", "?", None, None, "x", usage=usage, wall_seconds=seconds)

    known = [record(2, 10, 0.25, 1.0), record(4, 30, 0.75, 3.0)]
    assert AnswerMeans.of(known) == AnswerMeans(lm_calls=3, input_tokens=20, output_tokens=1, cost_usd=0.5, seconds=2.0)
    assert AnswerMeans.of([*known, record(1, 1, None, 1.0)]).cost_usd is None


@pytest.mark.parametrize(("cost_usd", "told"), [(0.01, 1.0), (None, 0.0)])
def test_what_more_answers_will_take(cost_usd: float | None, told: float) -> None:
    measured = Baseline(
        0.5, (0.4, 0.6), 10, lm_calls=3.2, input_tokens=100, output_tokens=10, cost_usd=cost_usd, seconds=2
    )
    assert measured.estimate_spend(100, concurrency=4) == Spend(
        lm_calls=320, input_tokens=10_000, output_tokens=1_000, cost_usd=told, seconds=50.0
    )
