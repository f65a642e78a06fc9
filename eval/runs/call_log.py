"""Replies of language models, kept so that no call is paid for twice.

`CallLog` belongs to one run: what its unfinished questions have been answered, so that an interrupted question goes on
where it was. `SharedCache` is for all runs on this machine, and only used with `cache.lm=shared`.

    calls = CallLog(folder / "calls.db")
    replies = calls.for_sample(Sample("q1"))
    replies.put(key, reply)
    replies.get(key)                      # the reply, also after kill -9; None if there is none
    calls.pay(Sample("q1"), Payment(100, 0, 20, cost_usd=0.0013))
    calls.paid(Sample("q1")).lm_calls     # 1: what it has cost so far, its useless replies included
    calls.total().lm_calls                # 1: of all samples that are not forgotten
    calls.forget(Sample("q1"))            # its record is in the store
    calls.close()                         # the file goes if nothing is left in it

A reply is paid for before it is kept, and what is written outlives kill -9. Of a request in flight that may take the
payment with the reply, or the reply alone: it is asked and paid again then, and both payments count.

Both are conveniences: a disk that is full or a file that is broken costs calls, never a question. It is said once.
"""

import json
from collections.abc import Callable, Container
from pathlib import Path

from eval.runs.best_effort_sqlite import BestEffortSqlite, as_bytes, as_text, warned
from eval.runs.record import PAID, Usage
from mas.runtime.sample_context import Payment, ReplyLog, SampleKey

_SCHEMA = """
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


class _ReplyFile(BestEffortSqlite):
    tables: tuple[str, ...] = (_SCHEMA,)
    instead = "its calls go to the model again"
    anew = "interrupted questions ask their calls anew"

    def get(self, sample_key: str, key: str) -> str | None:
        rows = self.execute("SELECT reply FROM replies WHERE sample = ? AND key = ?", sample_key, as_bytes(key))
        return as_text(rows[0][0]) if rows else None

    def put(self, sample_key: str, key: str, reply: str) -> None:
        self.execute("INSERT OR REPLACE INTO replies VALUES(?, ?, ?)", sample_key, as_bytes(key), as_bytes(reply))

    def count(self) -> int:
        rows = self.execute("SELECT count(*) FROM replies")
        return rows[0][0] if rows else 0


class CallLog:
    """The replies that a run's unfinished questions have had. Any thread; one process, the one that holds the store."""

    def __init__(self, path: Path, warn: Callable[[str], None] = warned) -> None:
        """Open the file or make it. A broken one is set aside and a new one begun."""
        self._file = _RunFile(path, "the run's call log", warn, set_aside=True)

    def for_sample(self, sample_key: SampleKey) -> ReplyLog:
        """The replies of this draw of this question, apart from those of all others."""
        return _SampleReplies(self._file, _name(sample_key))

    def pay(self, sample_key: SampleKey, payment: Payment) -> None:
        """Note what one more request of the question has cost."""
        self._file.pay(_name(sample_key), payment)

    def paid(self, sample_key: SampleKey) -> Usage:
        """All that was noted for this question, in all sessions of the run."""
        return self._file.paid("WHERE sample = ?", _name(sample_key))

    def total(self) -> Usage:
        """All that was noted for samples that are not forgotten, in all sessions of the run: one row of SQL each."""
        return self._file.paid()

    def unfinished(self) -> Usage:
        """The same of a run that forgets what is finished: it is in no record yet."""
        return self.total()

    def forget(self, sample_key: SampleKey) -> None:
        """The question is finished and stored: nobody will ask for its replies any more."""
        self._file.forget(_name(sample_key))

    def forget_finished(self, finished: Container[tuple[str, int, int]]) -> None:
        """Those of them that were stored in the instant before the process was killed, by (id, epoch, attempt)."""
        for name in self._file.samples():
            if tuple(json.loads(name)) in finished:
                self._file.forget(name)

    def count(self) -> int:
        """Replies kept."""
        return self._file.count()

    def close(self) -> None:
        """Remove the file if nothing is left in it, as after every complete run. Closing twice is harmless."""
        self._file.close_and_tidy()


class _RunFile(_ReplyFile):
    """With the account of each question beside its replies."""

    tables = (_SCHEMA, _PAYMENTS)

    def pay(self, sample_key: str, payment: Payment) -> None:
        tokens = (payment.input_tokens, payment.cached_input_tokens, payment.output_tokens)
        self.execute(_PAY, sample_key, *tokens, payment.cost_usd or 0.0, payment.cost_usd is None)

    def paid(self, where: str = "", *values: str) -> Usage:
        rows = self.execute(f"{_TOTAL} {where}", *values)
        paid = dict(zip(PAID, rows[0] if rows else [0.0] * len(PAID), strict=True))
        known_cost_usd = paid.pop("known_cost_usd")
        usage = Usage(known_cost_usd=known_cost_usd)
        for name, count in paid.items():
            setattr(usage, name, int(count))
        usage.cost_usd = known_cost_usd if usage.lm_calls and not usage.unknown_cost_calls else None
        return usage

    def forget(self, sample_key: str) -> None:
        for table in ("replies", "payments"):
            self.execute(f"DELETE FROM {table} WHERE sample = ?", sample_key)

    def samples(self) -> list[str]:
        return [
            sample_key for (sample_key,) in self.execute("SELECT sample FROM replies UNION SELECT sample FROM payments")
        ]

    def close_and_tidy(self) -> None:
        empty = self.is_open and not self.samples()
        usable = self.is_open  # still, after that query
        self.close()
        if empty and usable:
            self.remove()


class _SampleReplies:
    def __init__(self, file: _ReplyFile, sample_key: str) -> None:
        self._file, self._sample = file, sample_key

    def get(self, key: str) -> str | None:
        return self._file.get(self._sample, key)

    def put(self, key: str, reply: str) -> None:
        self._file.put(self._sample, key, reply)


class SharedCache(_SampleReplies):
    """Replies for whoever asks the same again, in any run. Any number of threads and processes."""

    def __init__(self, path: Path, warn: Callable[[str], None] = warned) -> None:
        super().__init__(_ReplyFile(path, "the shared cache", warn), sample_key="")

    def close(self) -> None:
        self._file.close()


def _name(sample_key: SampleKey) -> str:
    return json.dumps([sample_key.sample_id, sample_key.epoch, sample_key.attempt])
