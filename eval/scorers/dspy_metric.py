"""Metric functions of DSPy, called as `dspy.GEPA` and `dspy.Evaluate` call them.

    def metric(gold, pred, trace=None, pred_name=None, pred_trace=None):
        right = gold.label == pred.label
        return dspy.Prediction(score=float(right), feedback="Read the title first.")

    metric = DspyMetric(metric, target_field="label")
    metric.call(sample)                                # what the function returns for the whole answer
    metric.call(sample, "classify", trace, own)        # the same for one predictor

`gold` is a `dspy.Example` of the sample's inputs, its tags and its target, `pred` a `dspy.Prediction` of the program's
outputs. The data hold texts: a field of `gold` that is also an output, such as the target `2` of `answer: int`, gets
the type of that output.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from eval.scorers.score import AnsweredSample

_NAMES = {"gold", "example", "pred", "prediction", "trace", "pred_name", "pred_trace"}  # parameters, as DSPy has them
_OF_ANSWER, _OF_PREDICTOR = 3, 5  # arguments: (gold, pred, trace) and (…, pred_name, pred_trace)
_LEAST = 2


@dataclass(frozen=True)
class DspyMetric:
    """A function with DSPy's arguments."""

    function: Callable[..., object]
    target_field: str  # of `gold`
    n_arguments: int  # that it takes

    @property
    def takes_predictor(self) -> bool:
        """True if it can give feedback on one predictor."""
        return self.n_arguments == _OF_PREDICTOR

    def call(
        self, sample: AnsweredSample, predictor: str | None = None, trace: object = None, own_trace: object = None
    ) -> object:
        """Return whatever the function returns, or raise what it raises.

        Args:
            sample: inputs, target and outputs.
            predictor: that gets feedback; None: the whole answer is scored.
            trace: of the whole program, as `dspy.settings.trace` holds it.
            own_trace: of the predictor.
        """
        import dspy

        inputs = dict(sample.inputs) or {"question": sample.question}
        outputs = dict(sample.outputs) or {"answer": sample.answer, "final_answer": sample.answer}
        labels = {**sample.tags, self.target_field: sample.target}
        typed = {name: _read_like(text, outputs.get(name)) for name, text in labels.items()}
        gold = dspy.Example(**{**typed, **inputs, self.target_field: typed[self.target_field]}).with_inputs(*inputs)
        outputs = {name: _add_attributes(value) for name, value in outputs.items()}
        arguments = (gold, dspy.Prediction(**outputs), trace, predictor, own_trace)
        return self.function(*arguments[: self.n_arguments])


class _Fields(dict[str, object]):
    """An object of an output's own class as a record holds it; its fields are attributes, as they were."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(f"the output has no field {name!r}") from error


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
        found: object = parse_value(text, type(output))
    except Exception:  # noqa: BLE001  a type of the user's own may raise anything
        return text
    return found


def read_dspy_metric(function: Callable[..., object], target_field: str) -> DspyMetric | None:
    """Return the function as a metric of DSPy; None if its arguments are others."""
    try:
        signature = inspect.signature(getattr(function, "forward", function))  # of a dspy.Module, whose call takes any
    except (TypeError, ValueError):  # a function in C that does not tell its arguments
        return None
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in signature.parameters.values()):
        return DspyMetric(function, target_field, _LEAST)  # a decorator hides the names; every metric takes these two
    taken = [n for n in (_OF_PREDICTOR, _OF_ANSWER, _LEAST) if _takes(signature, n)]
    if not taken or not (taken[0] == _OF_PREDICTOR or _NAMES & signature.parameters.keys()):
        return None
    return DspyMetric(function, target_field, taken[0])


def _takes(signature: inspect.Signature, n_arguments: int) -> bool:
    try:
        signature.bind(*range(n_arguments))
    except TypeError:
        return False
    return True
