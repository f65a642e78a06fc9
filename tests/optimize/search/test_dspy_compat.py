"""What DSPy's optimizers do not do while they are a part of this program."""

import logging
import time
from contextvars import ContextVar
from typing import Any

import dspy
import dspy.evaluate.evaluate
import dspy.teleprompt.bootstrap
import dspy.teleprompt.random_search
import gepa.core.engine
import gepa.proposer.merge
import pytest
import tqdm
from dspy.utils import parallelizer
from dspy.utils.parallelizer import ParallelExecutor

from mas.runtime.errors import UserError
from optimize.search.dspy_compat import UntimedExecutor, check_gepa_version, run_isolated

SLOW_SECONDS = 1.4  # DSPy looks for stragglers once a second


class Slow(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def forward(self, sample_id: str) -> dspy.Prediction:
        self.asked.append(sample_id)
        time.sleep(SLOW_SECONDS if sample_id == "slow" else 0)
        return dspy.Prediction(score=1.0)


def evaluate(program: Slow) -> float:
    samples = [dspy.Example(sample_id=each).with_inputs("sample_id") for each in ("slow", "quick")]
    result = dspy.Evaluate(devset=samples, metric=lambda gold, pred: pred.score, num_threads=4)(program)
    return float(result.score)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """DSPy's 120 s are 0.3 s."""
    init = ParallelExecutor.__init__

    def hurried(self: Any, *args: Any, **settings: Any) -> None:
        init(self, *args, **{"timeout": 0.3, **settings})

    monkeypatch.setattr(ParallelExecutor, "__init__", hurried)


@pytest.mark.usefixtures("impatient")
def test_a_slow_example_is_asked_once() -> None:
    program = Slow()
    assert run_isolated(lambda: evaluate(program)) == 100.0
    assert sorted(program.asked) == ["quick", "slow"]


@pytest.mark.usefixtures("impatient")
def test_dspy_alone_asks_a_slow_example_again() -> None:
    """If this fails, DSPy has changed, and `UntimedExecutor` may go."""
    program = Slow()
    evaluate(program)
    assert program.asked.count("slow") > 1


def test_everything_is_as_before_afterwards_also_after_an_error() -> None:
    def found() -> list[Any]:
        bootstrap, random_search = dspy.teleprompt.bootstrap, dspy.teleprompt.random_search
        names = [vars(module).get("print") for module in (bootstrap, random_search)]
        patched = [dspy.evaluate.evaluate.ParallelExecutor, bootstrap.tqdm, gepa.core.engine.tqdm, parallelizer.tqdm]
        levels = [logging.getLogger(name).level for name in ("dspy", "gepa")]
        return [*names, *patched, *levels, vars(gepa.proposer.merge).get("set")]

    before = found()
    inside = run_isolated(found)
    assert inside != before and UntimedExecutor in inside
    with pytest.raises(ZeroDivisionError):
        run_isolated(lambda: 1 / 0)
    assert found() == before


def test_several_candidates_are_scored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """DSPy clears tqdm's list of bars before each evaluation: here another thread does so while a bar is made."""

    def clear(cls: Any, instance: object = None) -> int:
        cls._instances.clear()
        return 0

    def score() -> list[str]:
        found: list[str] = UntimedExecutor(num_threads=2, max_errors=1).execute(str, [1, 2])
        return found

    monkeypatch.setattr(tqdm.tqdm, "_get_free_pos", classmethod(clear))
    assert run_isolated(score) == ["1", "2"]
    with pytest.raises(KeyError):
        score()  # DSPy alone; if this passes, `NoBar` may go


def test_the_work_has_the_callers_context() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("the caller's")
    assert run_isolated(variable.get) == "the caller's"


@pytest.mark.parametrize("version", ["0.0.9", "0.2.0", "1.0.0"])
def test_another_version_of_gepa_is_refused_in_a_sentence(version: str) -> None:
    with pytest.raises(UserError, match=r"gepa .* is installed, but tuning .* install the locked packages"):
        check_gepa_version(version)
