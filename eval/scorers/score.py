"""The verdict on one answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Score:
    """`value` is what accuracy is made of; `parts` are diagnostics that never enter it."""

    value: float  # 0 to 1
    explanation: str
    parts: Mapping[str, float] = field(default_factory=dict)


class Scorer(Protocol):
    """Judges an answer against the gold answer."""

    def __call__(self, question: str, answer: str | None, target: str) -> Score: ...
