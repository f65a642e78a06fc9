"""Contracts of scoring: the verdict on one answer, and the rule that reaches it."""

from abc import abstractmethod
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Score:
    """The verdict on one answer. Accuracy is made of `value`; `parts` are diagnostics that never enter it."""

    value: float  # 0 to 1; an answer counts as correct from 1 on
    explanation: str  # in words and without the target: an optimizer reads it
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class AnsweredSample:
    """A sample with everything that its program returned."""

    question: str
    answer: str | None
    target: str
    inputs: Mapping[str, object] = field(default_factory=dict)  # named fields; empty: the question alone
    outputs: Mapping[str, object] = field(default_factory=dict)  # all output fields; empty: the answer alone


class ScorerError(Exception):
    """No verdict could be reached; the message is half a sentence."""


@runtime_checkable
class Scorer(Protocol):
    """A rule that compares an answer with the target; the fields of an implementation are its keys in `conf/scorer/`.

    An exception puts the sample in error and is never a score.
    """

    def check(self) -> None:
        """Raise UserError if a setting is wrong, before anything is spent."""
        return

    @abstractmethod
    def __call__(self, question: str, answer: str | None, target: str) -> Score | Awaitable[Score]:
        """Score one answer; None if the system gave none."""


@runtime_checkable
class SampleScorer(Scorer, Protocol):
    """A scorer that reads named inputs and outputs, and may give feedback of its own."""

    @abstractmethod
    def reads_outputs(self) -> bool:
        """Return True if an answer alone cannot be scored."""

    @abstractmethod
    def score_sample(self, sample: AnsweredSample) -> Score | Awaitable[Score]:
        """Score one answer."""

    @abstractmethod
    def give_feedback(self, sample: AnsweredSample, predictor: str, trace: object, own_trace: object) -> str | None:
        """Return the user's feedback for one predictor, which may quote the target; None if there is none.

        Args:
            sample: inputs, target and outputs.
            predictor: its name.
            trace: of the whole program, as `dspy.settings.trace` holds it.
            own_trace: of the predictor.
        """
