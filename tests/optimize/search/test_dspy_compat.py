"""What DSPy's optimizers do not do while they are a part of this program."""

import logging
import threading
import time
from contextvars import ContextVar
from typing import Any

import dspy
import dspy.evaluate.evaluate
import dspy.teleprompt.bootstrap
import dspy.teleprompt.mipro_optimizer_v2
import dspy.teleprompt.random_search
import gepa.core.engine
import gepa.proposer.merge
import pytest
import tqdm
from dspy.utils import parallelizer
from dspy.utils.parallelizer import ParallelExecutor

from mas.runtime.errors import UserError
from optimize.search.dspy_compat import (
    UntimedExecutor,
    adapt_mipro,
    check_gepa_version,
    observe_draws,
    run_isolated,
    to_examples,
)

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


def test_the_version_of_gepa_that_is_locked_is_accepted() -> None:
    check_gepa_version("0.1.4")


def test_inside_only_errors_are_logged_and_nothing_is_kept_by_dspy_in_a_thread_that_ends_with_the_program() -> None:
    def found() -> list[Any]:
        thread = threading.current_thread()
        levels = [logging.getLogger(name).level for name in ("dspy", "gepa", "optuna")]
        return [*levels, dspy.settings.trace, dspy.settings.disable_history, thread.daemon, thread.name]

    with dspy.context(trace=["a call"], disable_history=False):
        assert run_isolated(found) == [logging.ERROR] * 3 + [None, True, True, "search"]


def test_inside_bars_and_prints_are_silent_and_sets_of_the_merge_are_in_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work() -> list[object]:
        for module in (dspy.teleprompt.bootstrap, dspy.teleprompt.random_search):
            vars(module)["print"]("noise", end="")
        bars = (dspy.teleprompt.bootstrap.tqdm.tqdm, gepa.core.engine.tqdm)
        assert [list(bar([1, 2])) for bar in bars] == [[1, 2], [1, 2]]
        assert all(bar([1]).disable for bar in bars)
        return list(vars(gepa.proposer.merge)["set"](["c", "a", "b", "a"]))

    assert run_isolated(work) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_each_program_that_is_scored_is_reported_with_its_results() -> None:
    quick = to_examples(["q1", "q2"])
    assert [(dict(each), dict(each.inputs())) for each in quick] == [({"sample_id": n},) * 2 for n in ("q1", "q2")]
    reported: list[Any] = []

    def scored(program: dspy.Module, results: Any) -> None:
        reported.append((program, [(example.sample_id, score) for example, _, score in results]))

    def metric(gold: Any, pred: Any) -> float:
        return float(pred.score)

    program, mipro = Slow(), dspy.teleprompt.mipro_optimizer_v2
    before = (dspy.teleprompt.random_search.Evaluate, vars(mipro).copy())
    with observe_draws(scored):
        result = dspy.teleprompt.random_search.Evaluate(devset=quick, metric=metric, num_threads=1)(program)
    assert result.score == 100.0 and reported == [(program, [("q1", 1.0), ("q2", 1.0)])]
    evaluate_all = dspy.Evaluate(devset=[], metric=metric, num_threads=1)
    demo_sets = mipro.create_n_fewshot_demo_sets
    for has_demos in (True, False):
        with adapt_mipro(Slow, scored, has_demos):
            assert mipro.GroundedProposer is Slow
            assert mipro.eval_candidate_program(1, quick[1:], program, evaluate_all).score == 100.0
            assert reported.pop() == (program, [("q2", 1.0)])
            assert (mipro.create_n_fewshot_demo_sets is demo_sets) == has_demos
            assert has_demos or mipro.create_n_fewshot_demo_sets(student=program) is None
    assert (dspy.teleprompt.random_search.Evaluate, vars(mipro)) == before
