"""Scorer: a function of the user, also a coroutine function, of (question, answer, target).

    # my_rules.py, in the current folder
    def shares_a_word(question: str, answer: str | None, target: str) -> float:
        return 1.0 if set((answer or "").split()) & set(target.split()) else 0.0

    python eval/run.py scorer=function scorer.target=my_rules:shares_a_word

It returns a bool, a number from 0 to 1, a dictionary (`value`, and if wanted `explanation` and `parts`) or a `Score`.
A function that waits or computes for long runs in a thread and does not delay other samples.
"""

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.scorers.score import Score, Scorer, ScorerError
from mas.runtime.errors import UserError
from mas.runtime.safe_call import await_safely, run_in_thread

EXPECTED = "expected a bool, a number from 0 to 1, a dictionary with `value`, or a Score"


@dataclass
class FunctionScorer(Scorer):
    """The keys of `conf/scorer/function.yaml`."""

    target: str  # "package.module:function"

    def __post_init__(self) -> None:
        self._function: Callable[..., object] | None = None  # loaded by `check`

    def check(self) -> None:
        """Load the function.

        Raises:
            UserError: it cannot be loaded, or does not take three arguments.
        """
        function = _load(self.target)
        try:
            inspect.signature(function).bind("question", "answer", "target")
        except TypeError as error:
            raise UserError(
                f"scorer.target={self.target} cannot be called ({error}): its arguments are question, answer, target."
            ) from error
        except ValueError:  # a function in C that does not tell its arguments
            pass
        self._function = function

    async def __call__(self, question: str, answer: str | None, target: str) -> Score:
        """Score one answer.

        Raises:
            ScorerError: what came back is no score.
            Exception: whatever the function itself raises.
        """
        if self._function is None:
            self.check()
        assert self._function is not None
        function = self._function
        if inspect.iscoroutinefunction(function):
            return convert_to_score(await await_safely(function(question, answer, target), _failure))
        returned = await run_in_thread(lambda: function(question, answer, target), _failure)
        return convert_to_score(await await_safely(returned, _failure) if inspect.isawaitable(returned) else returned)


def _failure(how: str) -> ScorerError:
    return ScorerError(f"the function {how}")


def convert_to_score(returned: object) -> Score:
    """Return what a user's function returned as a score.

    Raises:
        ScorerError: another type, or out of range.
    """
    if isinstance(returned, Score):
        return Score(_read_value(returned.value), str(returned.explanation), _read_parts(returned.parts))
    if isinstance(returned, Mapping):
        if "value" not in returned or (unknown := set(returned) - {"value", "explanation", "parts"}):
            wrong = "no `value`" if "value" not in returned else f"the unknown key {min(map(str, unknown))!r}"
            raise ScorerError(f"the function returned a dictionary with {wrong}; {EXPECTED}")
        value = _read_value(returned["value"])
        return Score(
            value,
            str(returned.get("explanation") or _explain_read_value(value)),
            _read_parts(returned.get("parts") or {}),
        )
    value = _read_value(returned)
    return Score(value, _explain_read_value(value))


def _read_value(value: object) -> float:
    number = _read_number(value)
    if number is None:
        raise ScorerError(f"the function returned {_describe_type(value)}; {EXPECTED}")
    if not 0 <= number <= 1:  # false for nan too
        raise ScorerError(f"the function returned {number}; expected 0 to 1")
    return number


def _read_parts(parts: object) -> dict[str, float]:
    if not isinstance(parts, Mapping):
        raise ScorerError(f"the function returned parts that are {_describe_type(parts)}; expected names with numbers")
    numbers = {str(name): _read_number(value) for name, value in parts.items()}
    if wrong := [name for name, number in numbers.items() if number is None or not math.isfinite(number)]:
        raise ScorerError(f"the function returned the part {wrong[0]!r}, which is no finite number")
    return {name: number for name, number in numbers.items() if number is not None}


def _read_number(value: object) -> float | None:
    if type(value).__module__ == "numpy" and hasattr(value, "item"):  # NumPy's scalars are not Python's
        value = value.item() if getattr(value, "ndim", 1) == 0 else value
    return float(value) if isinstance(value, bool | int | float) else None


def _describe_type(value: object) -> str:
    return "nothing (is a `return` missing?)" if value is None else f"a {type(value).__name__}"


def _explain_read_value(value: float) -> str:
    return "right" if value >= 1 else "wrong" if value <= 0 else f"partly right: {value:g}"


def _load(target: str) -> Callable[..., object]:
    module_name, _, name = target.partition(":") if ":" in target else target.rpartition(".")
    if not (module_name and name):
        raise UserError(f"scorer.target={target} names no function: give package.module:function.")
    here = Path.cwd()
    try:
        with _importable(here):
            found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # the user's own module may raise anything while it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"scorer.target={target} cannot be loaded ({reason}): give package.module:function of something that can "
            f"be imported from {here}."
        ) from error
    if not callable(found):
        raise UserError(f"scorer.target={target} is a {type(found).__name__}: give a function.")
    return found  # type: ignore[no-any-return]


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Put the folder first for the import alone: its files must not hide libraries that are loaded later."""
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
