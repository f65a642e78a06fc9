"""What ends a tuning run before anything is spent."""

import io
import sys
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from rich.console import Console

from eval.benchmarks.toy_set import ToyDataset
from eval.cli.paths import PROJECT_ROOT
from eval.scorers.score import Score
from mas.runtime.errors import UserError
from optimize.pipeline.preflight import confirm, confirm_start, prepare_splits
from optimize.questions.splits import SplitSettings, make_splits
from optimize.session.config import TuneConfig, read_config
from tests.optimize.planted_runs import Obedient


@dataclass
class Judging:
    """Counts what it is asked; its judge's calls cost."""

    judge: Any = field(default_factory=lambda: SimpleNamespace(simulated=False))
    asked: int = 0

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        self.asked += 1
        return Score(float(answer == target), "")


def request(*options: str, scorer: Any = None, simulated: bool = True) -> TuneConfig:
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        composed = compose("optimize", ["system=toy", "data=sample", "model=offline", *options])
    config = read_config(composed, options)
    config.base.scorer = scorer or config.base.scorer
    config.base.model = config.base.model if simulated else Obedient(simulated=False)
    prompts = config.base.read_prompts()
    assert prompts is not None
    config.parent = prompts
    return config


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
    asked = request("data=toy", "split=val", "splits.seed=2")
    asked.parent = replace(asked.parent, tuned_on=before.tuned_on)
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

    asked = request(scorer=Generous())
    with pytest.raises(UserError, match="nonsense"):
        confirm_start(asked, prepare_splits(asked, console), console)


def test_a_judge_is_not_asked_before_the_estimate_is_confirmed(console: Console) -> None:
    judging = Judging()
    asked = request("yes=true", scorer=judging, simulated=False)
    splits = prepare_splits(asked, console)
    assert judging.asked == 0
    confirm_start(asked, splits, console)
    assert judging.asked > 0


# Confirmation


def test_nobody_is_asked_about_a_simulated_model_or_a_run_that_goes_on(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    for asked in (request(), request("resume=latest", simulated=False), request("yes=true", simulated=False)):
        confirm_start(asked, prepare_splits(asked, console), console)
    for scorer in (None, Judging(SimpleNamespace(simulated=True))):
        asked = request(simulated=False, scorer=scorer)
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


@pytest.mark.parametrize(
    ("option", "said"), [("lm_calls=100", "the sealed test alone, 690 answers"), ("metric_calls=60", "the baseline")]
)
def test_a_budget_that_is_too_small_is_refused_before_anybody_is_asked(
    option: str, said: str, console: Console
) -> None:
    asked = request(f"budget.{option}")
    splits = prepare_splits(asked, console)
    with pytest.raises(UserError, match=rf"budget\.{option} is too small: {said}"):
        confirm_start(asked, splits, console)
