"""Correction of one agent's outputs while samples are answered: it knows the target, the other agents do not.

Kinds of correction:

    answer      the field that holds the draft of the answer becomes the target
    review      a critic of that draft approves it if it is right, and rejects it if it is wrong
    approval    a critic of other work approves it: what its rejections cost shows, what it overlooks does not
    hint        the agent's own prompt gains a line with the target, for what has no form that could be written here
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

Kind = Literal["answer", "review", "approval", "hint"]
APPROVE, REJECT = "approve", "reject"
_FEEDBACK = {APPROVE: "It is right.", REJECT: "It is wrong; work it out again."}
_CHECKED = "The answer was worked out and checked."
_HINT = (
    "\n\nFor this question alone, to find out where an error arises: the right final answer is {target}. Do your own "
    "part so that those who work after you can arrive at it from what you give them. Do not state it, unless it is "
    "your part to give the answer itself, and do not mention this note."
)


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
                _surround(predictor, self._prepare, self._correct)
            elif name == self.judged:
                _surround(predictor, lambda predictor, inputs: inputs, self._remember)

    def _prepare(self, predictor: dspy.Predict, inputs: dict[str, object]) -> dict[str, object]:
        _, matcher = self._find_matcher()
        if self.kind != "hint" or matcher is None:
            return inputs
        signature = predictor.signature
        hinted = signature.with_instructions(signature.instructions + _HINT.format(target=matcher.text))
        return {**inputs, "signature": hinted}

    def _correct(self, prediction: dspy.Prediction) -> None:
        key, matcher = self._find_matcher()
        if matcher is None:
            return
        if self.kind == "answer":
            self._write_answer(prediction, matcher.text)
        elif self.kind in ("review", "approval") and prediction.get(DECISION) is not None:
            is_right = matcher.is_contained_in(self._last[key])
            decision = APPROVE if self.kind == "approval" or is_right else REJECT
            if str(prediction[DECISION]) != decision:
                prediction[DECISION] = decision
                if "feedback" in prediction:
                    prediction["feedback"] = _FEEDBACK[decision]

    def _write_answer(self, prediction: dspy.Prediction, target: str) -> None:
        name = find_answer_field(dict(prediction.items()))
        if name is None:  # a turn in which it calls tools
            return
        prediction[name] = target
        for other, value in prediction.items():
            if other != name and isinstance(value, str) and is_reasoning(other):
                prediction[other] = _CHECKED

    def _remember(self, prediction: dspy.Prediction) -> None:
        outputs = dict(prediction.items())
        if (name := find_answer_field(outputs)) is not None:
            key, _ = self._find_matcher()
            self._last[key] = str(outputs[name])

    def _find_matcher(self) -> tuple[SampleKey, TargetMatcher | None]:
        """Return the key of the sample that is being answered, and what finds its target."""
        context = current_context()
        key = context.key if context is not None else SampleKey("")
        return key, self.matchers.get(key.sample_id)


def _surround(
    predictor: dspy.Predict,
    prepare: Callable[[dspy.Predict, dict[str, object]], dict[str, object]],
    correct: Callable[[dspy.Prediction], None],
) -> None:
    """Let functions change the inputs and the prediction of every call, synchronous or not."""
    kind = type(predictor)  # DSPy warns of whoever reads `predictor.forward`
    forward, aforward = kind.forward.__get__(predictor), kind.aforward.__get__(predictor)

    def call(**inputs: object) -> dspy.Prediction:
        prediction = forward(**prepare(predictor, inputs))
        correct(prediction)
        return prediction

    async def acall(**inputs: object) -> dspy.Prediction:
        prediction = await aforward(**prepare(predictor, inputs))
        correct(prediction)
        return prediction

    predictor.forward, predictor.aforward = call, acall
