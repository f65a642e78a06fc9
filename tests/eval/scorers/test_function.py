"""A user's own rule, from a file in the current folder."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.scorers.function import FunctionScorer, convert_to_score
from eval.scorers.score import Score, ScorerError
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
    assert judged(f"{rules}:same", "q?", "a", "b") == Score(0.0, "wrong")
    assert judged(f"{rules}:half") == Score(0.5, "partly right: 0.5")
    assert judged(f"{rules}:rule") == Score(1.0, "asked q?", {"length": 2.0})
    assert judged(f"{rules}:rule.method") == Score(0.25, "a quarter")
    assert str(Path.cwd()) not in sys.path, "the current folder is searched for the import alone"


def test_what_the_function_raises_is_passed_on_and_no_score(rules: str) -> None:
    with pytest.raises(KeyError, match="no such row"):
        judged(f"{rules}:breaks")
    with pytest.raises(ScorerError, match=r"returned nothing \(is a `return` missing"):
        judged(f"{rules}:forgot")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("RULES:nope", "has no nope; it has: "),
        ("RULES:limit", "is an int: give a function"),
        ("RULES:two", "too many positional arguments"),
        ("rule", "expected package.module:name"),
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
    assert convert_to_score(sum([0.1] * 10) + 3e-16).value == 1.0
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
