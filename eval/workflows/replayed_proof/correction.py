"""Correction of one agent's outputs while samples are answered: it knows the target, the other agents do not.

Kinds of correction:

    answer      the field that holds the draft of the answer becomes the target
    review      a critic of that draft approves it if it is right, and rejects it if it is wrong
    approval    a critic of other work approves it: what its rejections cost shows, what it overlooks does not
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import dspy

from eval.analysis.attribution.agent_steps import DECISION, find_answer_field, is_reasoning
from eval.analysis.attribution.target_matcher import TargetMatcher
from mas.runtime.sample_context import SampleKey, current_context
from mas.system import Program

Kind = Literal["answer", "review", "approval"]
APPROVE, REJECT = "approve", "reject"
_FEEDBACK = {APPROVE: "It is right.", REJECT: "It is wrong; work it out again."}
_CHECKED = "The answer was worked out and checked."


@dataclass
class Correction:
    """Correction of one agent in the answers to some samples."""

    agent: str  # name of its predictor
    kind: Kind
    matchers: Mapping[str, TargetMatcher]  # by sample id; other samples are left alone
    judged: str | None = None  # of a critic: the agent whose work it reviews
    _last: defaultdict[SampleKey, str] = field(default_factory=lambda: defaultdict(str))  # what `judged` said last

    def change_program(self, program: Program) -> None:
        """Correct the agent from now on, in this program alone."""
        for name, predictor in program.named_predictors():
            if name == self.agent:
                _surround(predictor, self._correct)
            elif name == self.judged:
                _surround(predictor, self._remember)

    def _correct(self, prediction: dspy.Prediction) -> None:
        key = _find_key()
        if (matcher := self.matchers.get(key.sample_id)) is None:
            return
        if self.kind == "answer":
            _write_answer(prediction, matcher.text)
        elif prediction.get(DECISION) is not None:
            is_right = matcher.is_contained_in(self._last[key])
            decision = APPROVE if self.kind == "approval" or is_right else REJECT
            if str(prediction[DECISION]) != decision:
                prediction[DECISION] = decision
                if "feedback" in prediction:
                    prediction["feedback"] = _FEEDBACK[decision]

    def _remember(self, prediction: dspy.Prediction) -> None:
        outputs = dict(prediction.items())
        if (name := find_answer_field(outputs)) is not None:
            self._last[_find_key()] = str(outputs[name])


def _write_answer(prediction: dspy.Prediction, target: str) -> None:
    name = find_answer_field(dict(prediction.items()))
    if name is None:  # a turn in which it calls tools
        return
    prediction[name] = target
    for other, value in prediction.items():
        if other != name and isinstance(value, str) and is_reasoning(other):
            prediction[other] = _CHECKED


def _find_key() -> SampleKey:
    """Return the key of the sample that is being answered."""
    context = current_context()
    return context.key if context is not None else SampleKey("")


def _surround(predictor: dspy.Predict, correct: Callable[[dspy.Prediction], None]) -> None:
    """Let a function change the prediction of every call, synchronous or not."""
    kind = type(predictor)  # DSPy warns of whoever reads `predictor.forward`
    forward, aforward = kind.forward.__get__(predictor), kind.aforward.__get__(predictor)

    def call(**inputs: object) -> dspy.Prediction:
        prediction = forward(**inputs)
        correct(prediction)
        return prediction

    async def acall(**inputs: object) -> dspy.Prediction:
        prediction = await aforward(**inputs)
        correct(prediction)
        return prediction

    predictor.forward, predictor.aforward = call, acall
