"""Replies of models, kept so that no call is made or paid for twice.

A run's `CallLog` (calls.db) has the replies to its unfinished samples, so that an interrupted sample continues where it
was. `eval/runs/caches.py` has what is kept for longer, and results of tools.

    calls = CallLog(folder / "calls.db")
    replies = calls.for_sample(SampleKey("q1"))
    replies.put(key, reply)
    replies.get(key)                         # the reply, also after kill -9; None if there is none
    calls.pay(SampleKey("q1"), Payment(100, 0, 20, cost_usd=0.0013))
    calls.sum_paid(SampleKey("q1")).lm_calls # 1: what the sample has cost so far, its useless replies included
    calls.forget(SampleKey("q1"))            # its record is in the store

A payment is written before its reply, and what is written survives kill -9. Of a request in flight it may lose the
payment with the reply, or the reply alone: it is then sent and paid again, and both payments count.
"""

import json
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.runs.record import PAID, Usage
from eval.runs.sqlite_file import BestEffortSqlite, decode_text, encode_text, remove_database
from mas.runtime.sample_context import Payment, ReplyLog, SampleKey, ToolResults
from mas.runtime.terminal import print_warning

CALL_LOG = "calls.db"

REPLIES = """
CREATE TABLE IF NOT EXISTS replies(
    sample TEXT NOT NULL,        -- JSON: sample id, epoch, attempt; empty in the cache that all runs share
    key BLOB NOT NULL,
    reply BLOB NOT NULL,         -- UTF-8, lone surrogates as they are
    PRIMARY KEY(sample, key)
)"""
_PAYMENTS = """
CREATE TABLE IF NOT EXISTS payments(
    sample TEXT PRIMARY KEY,     -- as above
    lm_calls INT NOT NULL,       -- that were answered or cut off
    input_tokens INT NOT NULL,
    cached_input_tokens INT NOT NULL,
    output_tokens INT NOT NULL,
    known_cost_usd REAL NOT NULL,
    unknown_cost_calls INT NOT NULL
)"""
_PAY = f"""
INSERT INTO payments VALUES(?, 1, ?, ?, ?, ?, ?) ON CONFLICT(sample) DO UPDATE SET
{", ".join(f"{name} = {name} + excluded.{name}" for name in PAID)}"""
_TOTAL = f"SELECT {', '.join(f'total({name})' for name in PAID)} FROM payments"


@dataclass(frozen=True)
class SampleReplies:
    """Replies to one sample in such a file."""

    file: BestEffortSqlite
    sample: str

    def get(self, key: str) -> str | None:
        query = "SELECT reply FROM replies WHERE sample = ? AND key = ?"
        rows = self.file.execute(query, self.sample, encode_text(key))
        return decode_text(rows[0][0]) if rows else None

    def put(self, key: str, reply: str) -> None:
        values = self.sample, encode_text(key), encode_text(reply)
        self.file.execute("INSERT OR REPLACE INTO replies VALUES(?, ?, ?)", *values)


class CallLog(BestEffortSqlite):
    """Replies to a run's unfinished samples. Any thread; one process, the one that holds the store."""

    tables = (REPLIES, _PAYMENTS)

    def __init__(self, path: Path, warn: Callable[[str], None] = print_warning) -> None:
        """Open the file or make it; `warn` is called once if it cannot be used."""
        super().__init__(path, "the run's call log", warn, set_aside=True)

    def for_sample(self, sample_key: SampleKey) -> ReplyLog:
        """Return the replies of one attempt at a sample."""
        return SampleReplies(self, _name(sample_key))

    def pay(self, sample_key: SampleKey, payment: Payment) -> None:
        """Add the cost of one request of the sample."""
        tokens = (payment.input_tokens, payment.cached_input_tokens, payment.output_tokens)
        self.execute(_PAY, _name(sample_key), *tokens, payment.cost_usd or 0.0, payment.cost_usd is None)

    def read_replies(self, sample_key: SampleKey) -> dict[str, str]:
        """Return the kept replies of one attempt at a sample by key."""
        rows = self.execute("SELECT key, reply FROM replies WHERE sample = ?", _name(sample_key))
        return {decode_text(key): decode_text(reply) for key, reply in rows}

    def sum_paid(self, sample_key: SampleKey) -> Usage:
        """Return what the sample has cost in all sessions of the run."""
        return self._sum("WHERE sample = ?", _name(sample_key))

    def sum_total(self) -> Usage:
        """Return the cost of all samples that are not forgotten, in all sessions of the run."""
        return self._sum()

    def _sum(self, where: str = "", *values: str) -> Usage:
        rows = self.execute(f"{_TOTAL} {where}", *values)
        paid = dict(zip(PAID, rows[0] if rows else [0.0] * len(PAID), strict=True))
        known_cost_usd = paid.pop("known_cost_usd")
        counts: dict[str, Any] = {name: int(count) for name, count in paid.items()}
        usage = Usage(known_cost_usd=known_cost_usd, **counts)
        usage.cost_usd = known_cost_usd if usage.lm_calls and not usage.unknown_cost_calls else None
        return usage

    def forget(self, sample_key: SampleKey) -> None:
        """Remove the replies and payments of a sample whose record is in the store."""
        self.forget_replies(sample_key)
        self.execute("DELETE FROM payments WHERE sample = ?", _name(sample_key))

    def forget_replies(self, sample_key: SampleKey) -> None:
        """Remove the replies of a sample whose record is in the store; its payments still count."""
        self.execute("DELETE FROM replies WHERE sample = ?", _name(sample_key))

    def forget_finished(self, finished: Container[tuple[str, int, int]]) -> None:
        """Forget samples that were stored just before the process was killed, by (id, epoch, attempt)."""
        for name in self._list_samples():
            if (key := tuple(json.loads(name))) in finished:
                self.forget(SampleKey(*key))

    def count(self) -> int:
        """Return the number of kept replies."""
        rows = self.execute("SELECT count(*) FROM replies")
        return rows[0][0] if rows else 0

    def close(self) -> None:
        """Remove the file if nothing is left in it, as after every complete run. Closing twice is harmless."""
        is_empty = self.is_open and not self._list_samples() and self.is_open  # still, after that query
        super().close()
        if is_empty:
            remove_database(self.path)

    def _list_samples(self) -> list[str]:
        return [name for (name,) in self.execute("SELECT sample FROM replies UNION SELECT sample FROM payments")]


def _name(sample_key: SampleKey) -> str:
    own = [sample_key.variant] if sample_key.variant else []
    return json.dumps([sample_key.sample_id, sample_key.epoch, sample_key.attempt, *own])


TOOL_CACHE = "tools.db"


@dataclass(frozen=True)
class Caches:
    """Caches that the samples of a session share. Any number of processes may use the same ones."""

    replies: ReplyLog | None = None  # of all runs; None: each call is made
    results: ToolResults | None = None  # what tools returned earlier in this run; None: each call is made
