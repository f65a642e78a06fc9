"""The little of a record that the summary keeps, so that 10,000 questions fit in a few megabytes.

row(record).vote == row(other).vote      # both answered the same
"""

import math
import re
from dataclasses import dataclass
from sys import intern

from eval.runs.record import Record


@dataclass(frozen=True, slots=True)
class Row:
    sample_id: str
    epoch: int
    attempt: int
    level: str | None
    scored: bool
    correct: bool
    score: float | None
    error_class: str | None  # None: no error
    limit: str | None
    format_loss: bool
    judged: tuple[bool, bool] | None  # where a judge scored: what the GAIA rule and exact text would have said
    leaks: tuple[tuple[str, str], ...]  # tool and source of each web result that gives the question away
    blocked_pages: tuple[tuple[str, int], ...]  # host and how often
    vote: int | None  # equal for equal answers of this process; None: in error, or without an answer


def build_row(record: Record) -> Row:
    failed = record.error is not None
    rule, exact = record.parts.get("rule"), record.parts.get("exact")
    judged = record.score is not None and rule is not None and exact is not None
    return Row(
        sample_id=record.sample_id,
        epoch=record.epoch,
        attempt=record.attempt,
        level=None if record.level is None else intern(record.level),
        scored=record.scored,
        correct=record.scored and record.correct,
        score=record.score,
        error_class=intern(record.error_class or "unknown") if failed else None,
        limit=None if record.limit is None else intern(record.limit),
        format_loss=record.parts.get("format_loss", 0.0) > 0,
        judged=((rule or 0) >= 1, (exact or 0) >= 1) if judged else None,
        leaks=tuple((each["tool"], each["source"]) for each in record.leaks),
        blocked_pages=tuple((intern(host), times) for host, times in record.blocked_pages.items()),
        vote=None if failed else _vote(record.answer),
    )


def _vote(answer: str | None) -> int | None:
    """A hash: the answer itself may be megabytes long."""
    said = normalise_answer("" if answer is None else str(answer))
    return hash(said) if said else None


def normalise_answer(answer: str) -> str:
    """The same text for answers that differ in case, in spacing, or in how one number is written, as GAIA reads it."""
    text = " ".join(answer.casefold().split())
    try:
        number = float(re.sub("[$%,]", "", text))
    except ValueError:
        return text
    return repr(number + 0.0) if math.isfinite(number) else text  # + 0.0: -0 is 0
