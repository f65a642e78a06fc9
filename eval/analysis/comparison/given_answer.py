"""The little of a question's records that a comparison keeps, so that runs of 10,000 questions fit in memory.

given = given_answers(store.records(without_trajectory=True))
given["q1"][2].correct      # of the second epoch
"""

from collections.abc import Iterable
from dataclasses import dataclass
from sys import intern

from eval.runs.record import Record

MAX_TEXT_CHARS = 600
# Error classes of replies that could not be read: parse errors, empty ones, those cut at the token limit.
UNREADABLE = ("malformed", "truncated")


@dataclass(slots=True)
class GivenAnswer:
    """To one question in one epoch: verdict of the last attempt, price of all of them, since all were paid for."""

    attempt: int
    correct: bool
    text: str  # cut; empty: in error, or no answer
    error_class: str | None  # None: no error
    unreadable: bool  # a reply could not be read
    format_lost: bool  # that, or the answer is wrong in its format alone
    seconds: float  # of work: without waiting for rate limits, free places and retries
    tokens: int  # in and out
    cost_usd: float | None  # None: unknown
    cached_calls: int  # from the cache that runs share: they cost nothing this time
    leaked: bool = False  # it met a web result that gives the question away
    cached_tool_calls: int = 0  # likewise: what tools returned to another run

    @classmethod
    def of(cls, record: Record) -> "GivenAnswer":
        failed = record.error is not None
        usage = record.usage
        return cls(
            attempt=record.attempt,
            correct=record.correct,
            text="" if failed or record.answer is None else str(record.answer)[:MAX_TEXT_CHARS],
            error_class=intern(record.error_class or "unknown") if failed else None,
            unreadable=record.error_class in UNREADABLE,
            format_lost=record.error_class in UNREADABLE or record.parts.get("format_loss", 0.0) > 0,
            seconds=max(record.wall_seconds - record.waited_seconds, 0.0),
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=usage.cost_usd if usage.lm_calls else 0.0,  # none was asked
            cached_calls=usage.cached_calls,
            leaked=bool(record.leaks),
            cached_tool_calls=usage.cached_tool_calls,
        )

    def with_price_of(self, other: "GivenAnswer") -> None:
        """Add what another attempt took."""
        self.seconds += other.seconds
        self.tokens += other.tokens
        self.cached_calls += other.cached_calls
        self.cached_tool_calls += other.cached_tool_calls
        known = self.cost_usd is not None and other.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None


Given = dict[str, dict[int, GivenAnswer]]  # question → epoch, from 1 → answer


def collect_answers(records: Iterable[Record]) -> Given:
    """Of all attempts, in any order."""
    found: Given = {}
    for record in records:
        epochs = found.setdefault(record.sample_id, {})
        now, before = GivenAnswer.of(record), epochs.get(record.epoch)
        if before is not None:
            last, other = (now, before) if now.attempt > before.attempt else (before, now)
            last.with_price_of(other)
            now = last
        epochs[record.epoch] = now
    return found
