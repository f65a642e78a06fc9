"""Scorer: a function of the user, also a coroutine function, of (question, answer, target), or a metric of DSPy.

    # my_rules.py, in the current folder
    def shares_a_word(question: str, answer: str | None, target: str) -> float:
        return 1.0 if set((answer or "").split()) & set(target.split()) else 0.0

    python eval/run.py scorer=function scorer.target=my_rules:shares_a_word

A metric of DSPy, (gold, pred, trace=None, pred_name=None, pred_trace=None) or less, is recognised by its arguments. A
field of `gold` that is also an output, such as the target `2` of `answer: int`, gets the type of that output.
"""

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from eval.scorers.score import AnsweredSample, SampleScorer, Score, ScorerError
from mas.agents.source_digest import digest_program
from mas.agents.targets import is_in_memory, load_target
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.runtime.text import name_type

ROUNDING = 1e-9  # a mean of floats may be 1.0000000000000002
EXPECTED = "expected a bool, a number from 0 to 1, a dictionary with `value`, or a Score"
TARGET_FIELD = "answer"  # of a DSPy metric's `gold` where no target column is named
_NAMES = {"gold", "example", "pred", "prediction", "trace", "pred_name", "pred_trace"}  # parameters, as DSPy has them
_OF_PREDICTOR, _OF_ANSWER, _LEAST = 5, 3, 2  # arguments: (…, pred_name, pred_trace), (gold, pred, trace), (gold, pred)


@dataclass
class FunctionScorer(SampleScorer):
    """The keys of `conf/scorer/function.yaml`."""

    target: str  # "package.module:function"
    target_field: str | None = None  # of a DSPy metric's `gold`: the target's name; None: "answer"

    def check(self) -> None:
        """Load the function. UserError: it cannot be loaded, or takes other arguments than a rule or a metric."""
        _ = self._loaded

    @cached_property
    def _loaded(self) -> tuple[Callable[..., object], int | None]:
        """The function, and how many arguments it takes as a metric of DSPy; None: it is none."""
        function = load_target(self.target, "scorer.target")
        if inspect.isclass(function):
            raise UserError(
                f"scorer.target={self.target} is a class: give a function, or an object of the class, such as "
                f"metric = {function.__name__}() in the module and scorer.target=module:metric."
            )
        if not callable(function):
            raise UserError(f"scorer.target={self.target} is {name_type(function)}: give a function.")
        try:
            signature = inspect.signature(getattr(function, "forward", function))  # a dspy.Module's call takes anything
            n_arguments = _count_metric_arguments(signature)
            if n_arguments is None:
                signature.bind("question", "answer", "target")
        except (TypeError, ValueError) as error:  # also a function in C that does not tell its arguments
            raise UserError(
                f"scorer.target={self.target} cannot be called ({error}): its arguments are question, answer, target, "
                "or those of a DSPy metric: gold, pred, trace=None, pred_name=None, pred_trace=None."
            ) from error
        return function, n_arguments

    @property
    def source_sha256(self) -> str:
        """The digest of the function's module and of what it imports from its project; empty if it is in memory."""
        self.check()
        return "" if is_in_memory(self.target) else digest_program(self.target.partition(":")[0])

    def reads_outputs(self) -> bool:
        return self._loaded[1] is not None

    async def score_sample(self, sample: AnsweredSample) -> Score:
        """Score one answer; raises ScorerError if what came back is no score, and whatever the function raises."""
        if self.reads_outputs():
            return convert_to_score(await self._call_metric(sample))
        return convert_to_score(await self._call(sample.question, sample.answer, sample.target))

    def give_feedback(self, sample: AnsweredSample, predictor: str, trace: object, own_trace: object) -> str | None:
        """Return the feedback of a DSPy metric that takes a predictor's name; raises what the function raises."""
        if self._loaded[1] != _OF_PREDICTOR:
            return None
        return _read_feedback(run_blocking(self._call_metric(sample, trace, predictor, own_trace))) or None

    async def _call_metric(
        self, sample: AnsweredSample, trace: object = None, predictor: str | None = None, own_trace: object = None
    ) -> object:
        examples = _build_examples(sample, self.target_field or TARGET_FIELD)
        return await self._call(*(*examples, trace, predictor, own_trace)[: self._loaded[1]])

    async def _call(self, *arguments: object) -> object:
        """Return what the function returns, from a thread unless it is a coroutine function."""
        function, _ = self._loaded
        if inspect.iscoroutinefunction(function):
            returned: object = function(*arguments)
        else:
            returned = await run_in_thread(lambda: function(*arguments), _failure)
        return await await_safely(returned, _failure) if inspect.isawaitable(returned) else returned


def _failure(how: str) -> ScorerError:
    return ScorerError(f"the function {how}")


def _count_metric_arguments(signature: inspect.Signature) -> int | None:
    """Return how many of the arguments of a DSPy metric are taken; None: it is no such metric."""
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in signature.parameters.values()):
        return _LEAST  # a decorator hides the names; every metric takes these two
    for n_arguments in (_OF_PREDICTOR, _OF_ANSWER, _LEAST):
        try:
            signature.bind(*range(n_arguments))
        except TypeError:
            continue
        return n_arguments if n_arguments == _OF_PREDICTOR or _NAMES & signature.parameters.keys() else None
    return None


def _build_examples(sample: AnsweredSample, target_field: str) -> tuple[object, object]:
    """Return `gold` and `pred` of a DSPy metric."""
    import dspy

    inputs = dict(sample.inputs) or {"question": sample.question}
    outputs = dict(sample.outputs) or {"answer": sample.answer, "final_answer": sample.answer}
    labels = {**sample.tags, target_field: sample.target}
    typed = {name: _read_like(text, outputs.get(name)) for name, text in labels.items()}
    gold = dspy.Example(**{**typed, **inputs, target_field: typed[target_field]}).with_inputs(*inputs)
    return gold, dspy.Prediction(**{name: _add_attributes(value) for name, value in outputs.items()})


class _Fields(dict[str, object]):
    """An object of an output's own class as a record holds it; its fields are attributes, as they were."""

    def __getattr__(self, name: str) -> object:
        if name in self:
            return self[name]
        raise AttributeError(f"the output has no field {name!r}")


def _add_attributes(value: object) -> object:
    if isinstance(value, list):
        return [_add_attributes(each) for each in value]
    return _Fields({name: _add_attributes(each) for name, each in value.items()}) if type(value) is dict else value


def _read_like(text: str, output: object) -> object:
    """Return a text of the data in the type of the program's output; as it is if it has none, or does not fit."""
    if output is None or isinstance(output, str):
        return text
    from mas.prompt_sets.dspy_internals import parse_value

    try:
        return parse_value(text, type(output))
    except Exception:  # noqa: BLE001  a type of the user's own may raise anything
        return text


def convert_to_score(returned: object) -> Score:
    """Return what a user's function returned as a score. ScorerError: another type, or out of range."""
    given = vars(returned) if isinstance(returned, Score) else returned
    if _is_prediction(given):
        given = {"value": getattr(given, "score", None), "explanation": _read_feedback(given)}
    given = given if isinstance(given, Mapping) else {"value": given}
    if "value" not in given or (unknown := set(given) - {"value", "explanation", "parts"}):
        wrong = "no `value`" if "value" not in given else f"the unknown key {min(map(str, unknown))!r}"
        raise ScorerError(f"the function returned a dictionary with {wrong}; {EXPECTED}")
    number, parts = _read_number(given["value"]), given.get("parts") or {}
    if number is None:
        found = "nothing (is a `return` missing?)" if given["value"] is None else name_type(given["value"])
        raise ScorerError(f"the function returned {found}; {EXPECTED}")
    if not -ROUNDING <= number <= 1 + ROUNDING:  # false for nan too
        raise ScorerError(f"the function returned {number}; expected 0 to 1")
    if not isinstance(parts, Mapping):
        raise ScorerError(f"the function returned parts that are {name_type(parts)}; expected names with numbers")
    numbers = dict[str, float]()
    for name, part in parts.items():
        if (read := _read_number(part)) is None or not math.isfinite(read):
            raise ScorerError(f"the function returned the part {name!r}, which is no finite number")
        numbers[str(name)] = read
    number = min(max(number, 0.0), 1.0)
    word = "right" if number == 1 else "wrong" if number == 0 else f"partly right: {number:g}"
    return Score(number, str(given.get("explanation") or word), numbers)


def _is_prediction(value: object) -> bool:
    """Return True for a `dspy.Prediction`, without importing dspy: such a function has imported it."""
    kind = getattr(sys.modules.get("dspy"), "Prediction", None)
    return kind is not None and isinstance(value, kind)


def _read_feedback(returned: object) -> str:
    """Return the feedback in what a DSPy metric returned; empty if there is none."""
    if isinstance(returned, Mapping):
        return str(returned.get("feedback") or "")
    return str(getattr(returned, "feedback", None) or "") if _is_prediction(returned) else ""


def _read_number(value: object) -> float | None:
    if type(value).__module__ == "numpy" and hasattr(value, "item"):  # NumPy's scalars are not Python's
        value = value.item() if getattr(value, "ndim", 1) == 0 else value
    return float(value) if isinstance(value, bool | int | float) else None
