"""A user's own rule, from a file in the current folder."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.scorers.function import FunctionScorer, convert_to_score
from eval.scorers.score import AnsweredSample, Score, ScorerError
from mas.runtime.errors import UserError

RULES = """
import asyncio
import threading

from eval.scorers.score import Score

limit = 3
threads = []

def same(question, answer, target):
    threads.append(threading.current_thread())
    return answer == target

async def half(question, answer, target):
    await asyncio.sleep(0)
    return 0.5

class Rule:
    async def __call__(self, question, answer, target):
        return {"value": 1, "explanation": f"asked {question}", "parts": {"length": 2}}

    def method(self, question, answer, target, extra=None):
        return Score(0.25, "a quarter")

rule = Rule()

def forgot(question, answer, target):
    answer == target

def breaks(question, answer, target):
    raise KeyError("no such row")

def exits(question, answer, target):
    raise SystemExit(3)

def runs_out(question, answer, target):
    return next(iter(()))

async def cancelled(question, answer, target):
    raise asyncio.CancelledError

async def interrupts(question, answer, target):
    raise KeyboardInterrupt

def two(answer, target):
    return True
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module of its own in the current folder."""
    monkeypatch.chdir(tmp_path)
    name = f"rules_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(RULES)
    yield name
    sys.modules.pop(name, None)


def judged(target: str, *asked: Any) -> Score:
    scorer = FunctionScorer(target)
    scorer.check()
    return asyncio.run(scorer(*(asked or ("q?", "a", "a"))))


def test_a_function_in_the_current_folder_judges(rules: str) -> None:
    assert judged(f"{rules}:same") == Score(1.0, "right")
    assert judged(f"{rules}.same", "q?", "a", "b") == Score(0.0, "wrong")
    assert judged(f"{rules}:half") == Score(0.5, "partly right: 0.5")
    assert judged(f"{rules}:rule") == Score(1.0, "asked q?", {"length": 2.0})
    assert judged(f"{rules}:rule.method") == Score(0.25, "a quarter")
    assert str(Path.cwd()) not in sys.path, "the current folder is searched for the import alone"


def test_a_plain_function_runs_in_a_thread_so_that_it_holds_nobody_up(rules: str) -> None:
    judged(f"{rules}:same")
    (thread,) = sys.modules[rules].threads
    assert thread is not threading.main_thread()


def test_what_the_function_raises_is_passed_on_and_no_score(rules: str) -> None:
    with pytest.raises(KeyError, match="no such row"):
        judged(f"{rules}:breaks")
    with pytest.raises(ScorerError, match=r"returned nothing \(is a `return` missing"):
        judged(f"{rules}:forgot")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("RULES:nope", "has no attribute 'nope'"),
        ("RULES:limit", "is an int: give a function"),
        ("RULES:two", "too many positional arguments"),
        ("rule", "names no function: give package.module:function"),
        (":rule", "names no function"),
        ("broken_rules:f", "SyntaxError"),
        ("leaving_rules:f", "SystemExit"),
    ],
)
def test_a_function_that_cannot_be_had_is_one_sentence(rules: str, target: str, words: str) -> None:
    Path("broken_rules.py").write_text("def f(:\n")
    Path("leaving_rules.py").write_text("raise SystemExit('bye')\n")
    with pytest.raises(UserError) as raised:
        FunctionScorer(target.replace("RULES", rules)).check()
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_numpys_numbers_count_as_numbers() -> None:
    import numpy

    assert convert_to_score(numpy.True_).value == 1.0
    assert convert_to_score(numpy.float32(0.25)).value == 0.25
    assert convert_to_score({"value": numpy.int64(1), "parts": {"n": numpy.int64(3)}}).parts == {"n": 3.0}
    with pytest.raises(ScorerError, match="a ndarray"):
        convert_to_score(numpy.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "nothing"), ("right", "a str"), ([1.0], "a list"), (1.01, "expected 0 to 1"), (-0.1, "expected 0 to 1"),
        (float("nan"), "expected 0 to 1"), (2, "expected 0 to 1"), ({}, "no `value`"), ({"score": 1}, "no `value`"),
        ({"value": 1, "why": "x"}, "unknown key 'why'"), ({"value": None}, "nothing"),
        ({"value": 1, "parts": [1]}, "a list"),
        ({"value": 1, "parts": {"n": "3"}}, "the part 'n'"), (Score(1.5, "x"), "expected 0 to 1"),
        (Score("1", "x"), "a str"), ({"value": 1, "parts": {"n": float("inf")}}, "the part 'n'"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_is_no_score_is_refused(returned: object, words: str) -> None:
    with pytest.raises(ScorerError) as raised:
        convert_to_score(returned)
    assert words in str(raised.value)


def test_many_slow_functions_run_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow_rules.py").write_text("import time\n\ndef slow(q, a, t):\n    time.sleep(0.2)\n    return True\n")
    scorer = FunctionScorer("slow_rules:slow")

    async def all_of_them() -> None:
        await asyncio.gather(*(scorer("q", "a", "t") for _ in range(4)))

    started = time.monotonic()
    asyncio.run(all_of_them())
    assert time.monotonic() - started < 0.7


@pytest.mark.parametrize("name", ["exits", "runs_out", "cancelled", "interrupts"])
def test_what_would_end_more_than_the_call_is_the_functions_mistake(rules: str, name: str) -> None:
    with pytest.raises(ScorerError):
        judged(f"{rules}:{name}", "?", "a", "a")


def test_each_kind_of_score_keeps_its_explanation_and_parts() -> None:
    import dspy

    class Halves(dict[str, float]):
        def item(self) -> float:  # like NumPy's, but it is no number
            return 0.5

    assert convert_to_score(True) == Score(1.0, "right")
    assert convert_to_score(0) == Score(0.0, "wrong")
    assert convert_to_score(0.125) == Score(0.125, "partly right: 0.125")
    assert convert_to_score({"value": 0.5}) == Score(0.5, "partly right: 0.5")
    assert convert_to_score({"value": 1, "explanation": "", "parts": None}) == Score(1.0, "right")
    assert convert_to_score({"value": 0, "explanation": 7, "parts": {1: True}}) == Score(0.0, "7", {"1": 1.0})
    assert convert_to_score(Score(1, "well done", {"n": 2})) == Score(1.0, "well done", {"n": 2.0})
    assert convert_to_score(dspy.Prediction(score=0.5, feedback="Look again.")) == Score(0.5, "Look again.")
    assert convert_to_score(dspy.Prediction(score=1)) == Score(1.0, "right")
    with pytest.raises(
        ScorerError, match=r"^the function returned nothing \(is a `return` missing\?\); expected a bool"
    ):
        convert_to_score(dspy.Prediction(feedback="no score"))
    with pytest.raises(ScorerError, match="no `value`"):
        convert_to_score(Halves())
    with pytest.raises(
        ScorerError, match=r"^the function returned a dictionary with the unknown key 'a'; expected a bool"
    ):
        convert_to_score({"value": 1, "b": 1, "a": 2})


METRICS = """
import dspy

def full(gold, pred, trace=None, pred_name=None, pred_trace=None):
    if pred_name == "silent":
        return dspy.Prediction(score=1.0)
    if pred_name == "mapped":
        return {"score": 1.0, "feedback": f"{gold.label}: {trace} {pred_trace}"}
    if pred_name == "number":
        return 1.0
    return dspy.Prediction(score=0.5, feedback=f"{pred_name}: {gold.label}")

def short(gold, pred, trace=None):
    return gold.answer == pred.answer
"""


@pytest.fixture
def metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    name = f"metrics_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(METRICS)
    yield name
    sys.modules.pop(name, None)


def test_a_dspy_metric_scores_and_gives_feedback_on_a_predictor(metrics: str) -> None:
    sample = AnsweredSample("q?", "a", "a")
    full, short = FunctionScorer(f"{metrics}:full", target_field="label"), FunctionScorer(f"{metrics}:short")
    assert asyncio.run(full.score_sample(sample)) == Score(0.5, "None: a")
    assert asyncio.run(short.score_sample(sample)) == Score(1.0, "right")
    assert full.give_feedback(sample, "solve", "T", "P") == "solve: a"
    assert full.give_feedback(sample, "mapped", "T", "P") == "a: T P"
    assert [full.give_feedback(sample, name, "T", "P") for name in ("silent", "number")] == [None, None]
    assert short.give_feedback(sample, "solve", "T", "P") is None
    assert full.reads_outputs() and short.reads_outputs()


def test_a_plain_function_reads_no_outputs_and_its_source_has_a_digest(rules: str) -> None:
    scorer = FunctionScorer(f"{rules}:same")
    assert not scorer.reads_outputs() and scorer.give_feedback(AnsweredSample("q?", "a", "a"), "p", None, None) is None
    digest = scorer.source_sha256
    assert len(digest) == 64 and FunctionScorer(f"{rules}:half").source_sha256 == digest
    Path(f"{rules}.py").write_text(RULES + "\nx = 1\n")
    assert FunctionScorer(f"{rules}.same").source_sha256 != digest


def test_a_function_of_a_module_that_was_written_after_the_last_look_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        (tmp_path / f"late_{number}_rules.py").write_text("def f(q, a, t):\n    return True\n")
        assert judged(f"late_{number}_rules:f") == Score(1.0, "right")
