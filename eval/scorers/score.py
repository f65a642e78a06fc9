"""The verdict on one answer."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Score:
    """`value` is what accuracy is made of; `parts` are diagnostics that never enter it."""

    value: float  # 0 to 1; an answer counts as correct from 1 on
    explanation: str  # in words and without the gold answer: an optimiser reads it
    parts: Mapping[str, float] = field(default_factory=dict)


class ScorerError(Exception):
    """No verdict could be reached; half a sentence."""


class Scorer(Protocol):
    """Judges an answer against the gold answer. What it raises puts the question in error, never a score.

    Those of `conf/scorer/` are dataclasses that also have `check()`, which raises UserError before anything is spent.
    """

    def __call__(self, question: str, answer: str | None, target: str) -> Score | Awaitable[Score]: ...
