"""Metric functions of DSPy, called as `dspy.GEPA` and `dspy.Evaluate` call them.

    def metric(gold, pred, trace=None, pred_name=None, pred_trace=None):
        right = gold.label == pred.label
        return dspy.Prediction(score=float(right), feedback="Read the title first.")

    metric = DspyMetric(metric, target_field="label")
    metric.call(sample)                                # what the function returns for the whole answer
    metric.call(sample, "classify", trace, own)        # the same for one predictor

`gold` is a `dspy.Example` of the sample's inputs, its tags and its target, `pred` a `dspy.Prediction` of the program's
outputs.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from eval.scorers.score import AnsweredSample

_NAMES = {
    "gold",
    "example",
    "pred",
    "prediction",
    "trace",
    "pred_name",
    "pred_trace",
}  # of parameters, as DSPy has them
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
        fields = {**sample.tags, **inputs, self.target_field: sample.target}
        gold = dspy.Example(**fields).with_inputs(*inputs)
        outputs = dict(sample.outputs) or {"answer": sample.answer, "final_answer": sample.answer}
        arguments = (gold, dspy.Prediction(**outputs), trace, predictor, own_trace)
        return self.function(*arguments[: self.n_arguments])


def read_dspy_metric(function: Callable[..., object], target_field: str) -> DspyMetric | None:
    """Return the function as a metric of DSPy; None if its arguments are others."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function in C that does not tell its arguments
        return None
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
