"""Replies of models, payments and results of tools: tables of run.db, so that no call is made or paid for twice.

A payment is written before its reply, and what is written survives kill -9. Of a request in flight it may lose the
payment with the reply, or the reply alone: it is then sent and paid again, and both payments count. Both go when the
sample's record is stored. Any thread may call these; what a full disk does not take costs calls, and is noticed by the
next row.
"""

from dataclasses import dataclass
from typing import Any

from eval.runs.record import PAID, Usage, escape, name_sample, unescape
from eval.runs.store import RunStore
from mas.runtime.sample_context import Payment, SampleKey

_PAY = f"""
INSERT INTO payments VALUES(?, 1, ?, ?, ?, ?, ?) ON CONFLICT(sample) DO UPDATE SET
{", ".join(f"{name} = {name} + excluded.{name}" for name in PAID)}"""
_TOTAL = f"SELECT {', '.join(f'total({name})' for name in PAID)} FROM payments"
_TOOLS = "tools"  # in place of a sample: results of tools for all samples


@dataclass(frozen=True)
class SampleReplies:
    """Replies to one sample. One in which a server has repeated a secret of the run is not kept: it is asked again."""

    store: RunStore
    sample: str

    def get(self, key: str) -> str | None:
        query = "SELECT reply FROM replies WHERE sample = ? AND key = ?"
        rows = self.store.try_execute(query, self.sample, escape(key))
        return unescape(rows[0][0]) if rows else None

    def put(self, key: str, reply: str) -> None:
        if self.store.redact(reply) == reply:
            values = self.sample, escape(key), escape(reply)
            self.store.try_execute("INSERT OR REPLACE INTO replies VALUES(?, ?, ?)", *values)


class CallLog:
    """Replies to a run's unfinished samples, and what was paid for them."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

    def for_sample(self, sample_key: SampleKey) -> SampleReplies:
        return SampleReplies(self.store, name_sample(sample_key))

    def for_tools(self) -> SampleReplies:
        """Return the results of read-only tools for all samples of the run, by digests of their calls.

        Two samples that make one call at the same time both make it, and a resumed run finds the first for both.
        """
        return SampleReplies(self.store, _TOOLS)

    def read_replies(self, sample_key: SampleKey) -> dict[str, str]:
        rows = self.store.try_execute("SELECT key, reply FROM replies WHERE sample = ?", name_sample(sample_key))
        return {unescape(key): unescape(reply) for key, reply in rows}

    def forget_replies(self, sample_key: SampleKey) -> None:
        """Remove the replies of a sample whose record is in the store; its payments still count."""
        self.store.try_execute("DELETE FROM replies WHERE sample = ?", name_sample(sample_key))

    def pay(self, sample_key: SampleKey, payment: Payment) -> None:
        tokens = (payment.input_tokens, payment.cached_input_tokens, payment.output_tokens)
        cost = (payment.cost_usd or 0.0, payment.cost_usd is None)
        self.store.try_execute(_PAY, name_sample(sample_key), *tokens, *cost)

    def sum_paid(self, sample_key: SampleKey) -> Usage:
        """Return what the sample has cost in all sessions of the run."""
        return self._sum("WHERE sample = ?", name_sample(sample_key))

    def sum_total(self) -> Usage:
        """Return the cost of all samples that are not forgotten, in all sessions of the run."""
        return self._sum()

    def _sum(self, where: str = "", *values: str) -> Usage:
        rows = self.store.try_execute(f"{_TOTAL} {where}", *values)
        paid: dict[str, Any] = dict(zip(PAID, rows[0] if rows else [0.0] * len(PAID), strict=True))
        usage = Usage(**{name: paid[name] if name == "known_cost_usd" else int(paid[name]) for name in PAID})
        usage.cost_usd = usage.known_cost_usd if usage.lm_calls and not usage.unknown_cost_calls else None
        return usage
