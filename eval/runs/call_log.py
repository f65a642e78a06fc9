"""Replies of models and results of tools, kept so that no call is made or paid for twice.

A run's `CallLog` (calls.db) has the replies to its unfinished samples, so that an interrupted sample continues where it
was; `ToolCache` (tools.db) has what read-only tools returned. `SharedCache`, and a `ToolCache` that is
shared, are for all runs on this machine, with `cache.lm=shared` and `cache.tools=shared`.

    calls = CallLog(folder / "calls.db")
    replies = calls.for_sample(SampleKey("q1"))
    replies.put(key, reply)
    replies.get(key)                         # the reply, also after kill -9; None if there is none
    calls.pay(SampleKey("q1"), Payment(100, 0, 20, cost_usd=0.0013))
    calls.sum_paid(SampleKey("q1")).lm_calls # 1: what the sample has cost so far, its useless replies included
    calls.sum_total().lm_calls               # 1: of all samples that are not forgotten
    calls.forget(SampleKey("q1"))            # its record is in the store
    calls.close()                            # removes the file if nothing is left in it

A payment is written before its reply, and what is written survives kill -9. Of a request in flight it may lose the
payment with the reply, or the reply alone: it is then sent and paid again, and both payments count.

Both files are conveniences: a full disk or a broken file costs calls, never a sample, and is reported once. A broken
file of a run is set aside (`calls.db.broken`), and a new one begun.
"""

import json
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval.cli.paths import OUTPUTS
from eval.config.evaluation import CacheSettings
from eval.runs.record import PAID, Usage
from eval.runs.sqlite_file import BestEffortSqlite, decode_text, encode_text
from mas.runtime.sample_context import KeptResult, Payment, ReplyLog, SampleKey, ToolResults
from mas.runtime.security.redaction import encode_secret, redact_value
from mas.runtime.terminal import print_warning

CALL_LOG = "calls.db"

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
    consequence = "its calls go to the model again"


@dataclass(frozen=True)
class _SampleReplies:
    file: BestEffortSqlite
    sample: str

    def get(self, key: str) -> str | None:
        query = "SELECT reply FROM replies WHERE sample = ? AND key = ?"
        rows = self.file.execute(query, self.sample, encode_text(key))
        return decode_text(rows[0][0]) if rows else None

    def put(self, key: str, reply: str) -> None:
        values = self.sample, encode_text(key), encode_text(reply)
        self.file.execute("INSERT OR REPLACE INTO replies VALUES(?, ?, ?)", *values)


class CallLog(_ReplyFile):
    """Replies to a run's unfinished samples. Any thread; one process, the one that holds the store."""

    tables = (_SCHEMA, _PAYMENTS)

    def __init__(self, path: Path, warn: Callable[[str], None] = print_warning) -> None:
        """Open the file or make it; `warn` is called once if it cannot be used."""
        super().__init__(path, "the run's call log", warn, set_aside=True)

    def for_sample(self, sample_key: SampleKey) -> ReplyLog:
        """Return the replies of one attempt at a sample."""
        return _SampleReplies(self, _name(sample_key))

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
        empty = self.is_open and not self._list_samples()
        usable = self.is_open  # still, after that query
        super().close()
        if empty and usable:
            self.remove("", "-wal", "-shm")

    def _list_samples(self) -> list[str]:
        return [name for (name,) in self.execute("SELECT sample FROM replies UNION SELECT sample FROM payments")]


class SharedCache(_SampleReplies):
    """Replies for every run that makes the same request. Any number of threads and processes."""

    def __init__(self, path: Path, warn: Callable[[str], None] = print_warning) -> None:
        super().__init__(_ReplyFile(path, "the shared cache", warn), sample="")

    def close(self) -> None:
        self.file.close()


def _name(sample_key: SampleKey) -> str:
    own = [sample_key.variant] if sample_key.variant else []
    return json.dumps([sample_key.sample_id, sample_key.epoch, sample_key.attempt, *own])


@dataclass(frozen=True)
class MaskedReplies:
    """Reply log that stores replies without the run's secrets, which a server may have repeated, and restores them.

    A reply must come back as it was, because later requests, and their keys, are made of it. If a secret has changed
    since, the new one is restored.

        replies.put("k", "your key sk-123 is fine")      # stored: "your key \\x00secret 0 plain\\x00 is fine"
        replies.get("k")                                 # "your key sk-123 is fine"
    """

    replies: ReplyLog
    secrets: Callable[[], Sequence[str]]

    def get(self, key: str) -> str | None:
        reply = self.replies.get(key)
        if reply and "\x00" in reply:
            for mask, form in self._list_masks():
                reply = reply.replace(mask, form)
        return reply

    def put(self, key: str, reply: str) -> None:
        for mask, form in self._list_masks():
            reply = reply.replace(form, mask)
        self.replies.put(key, reply)

    def _list_masks(self) -> list[tuple[str, str]]:
        """Return the mask of each form of each secret, the longest form first."""
        masks = [
            (f"\x00secret {number} {name}\x00", form)
            for number, secret in enumerate(self.secrets())
            for name, form in encode_secret(secret).items()
        ]
        return sorted(masks, key=lambda each: len(each[1]), reverse=True)


TOOL_CACHE = "tools.db"


class ToolCache(BestEffortSqlite):
    """Results of read-only tools, as one run sees them.

    Keys are digests of the call (`mas.tools.read_only`), and no secret is in what is kept. Two samples that make one
    call at the same time both make it, and the first result is kept: a resumed run finds it for both. Any thread; any
    number of processes if the file is shared, else the one that holds the store.
    """

    tables = (
        """
CREATE TABLE IF NOT EXISTS tool_results(
    key TEXT PRIMARY KEY,        -- SHA-256 of the call and of all that its result depends on
    returned BLOB NOT NULL,      -- UTF-8, lone surrogates as they are
    facts TEXT NOT NULL,         -- JSON: kind, sources and so on of the result
    events TEXT NOT NULL,        -- JSON: events that the tool noted during the call
    run_id TEXT NOT NULL,        -- of the call
    kept_at TEXT NOT NULL        -- UTC, ISO 8601
)""",
    )
    consequence = "the calls of its tools are made again"

    def __init__(
        self,
        path: Path,
        run_id: str,
        redact: Callable[[str], str],
        warn: Callable[[str], None] = print_warning,
        is_shared: bool = False,
    ) -> None:
        """`redact`: takes the run's secrets out of a text."""
        self._run_id, self._redact = run_id, redact
        what = "the shared cache" if is_shared else "the run's tool results"
        super().__init__(path, what, warn, set_aside=not is_shared)

    def find(self, key: str) -> KeptResult | None:
        rows = self.execute("SELECT returned, events, facts, run_id, kept_at FROM tool_results WHERE key = ?", key)
        if not rows:
            return None
        returned, events, facts, run_id, kept_at = rows[0]
        other_run_at = None if run_id == self._run_id else kept_at
        return KeptResult(decode_text(returned), tuple(json.loads(events)), json.loads(facts), other_run_at)

    def keep(self, key: str, result: KeptResult) -> None:
        facts = json.dumps(redact_value(dict(result.facts), self._redact), default=str)
        events = json.dumps(redact_value(list(result.events), self._redact), default=str)
        returned = encode_text(self._redact(result.returned))
        values = key, returned, facts, events, self._run_id, datetime.now(UTC).isoformat(timespec="seconds")
        self.execute("INSERT OR IGNORE INTO tool_results VALUES(?, ?, ?, ?, ?, ?)", *values)


@dataclass(frozen=True)
class Caches:
    """Caches that the samples of a session share. Any number of processes may use the same ones."""

    replies: ReplyLog | None = None  # of all runs; None: each call is made
    results: ToolResults | None = None  # what tools returned earlier, to this run or to any; None: each call is made


@contextmanager
def open_caches(settings: CacheSettings, folder: Path, run_id: str, redact: Callable[[str], str]) -> Iterator[Caches]:
    """Open the caches that a run is to use; `redact` takes secrets out of results."""
    with ExitStack() as stack:
        replies = results = None
        if settings.lm == "shared":
            replies = stack.enter_context(closing(SharedCache(OUTPUTS / "cache" / "lm.db")))
        if settings.tools in ("run", "shared"):
            is_shared = settings.tools == "shared"
            place = OUTPUTS / "cache" if is_shared else folder
            results = ToolCache(place / TOOL_CACHE, run_id, redact, is_shared=is_shared)
            stack.callback(results.close)
        yield Caches(replies, results)


def remove_tool_results(folder: Path) -> None:
    """Remove the tool results of a complete run, and those of an earlier session with another `cache.tools`."""
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):
            (folder / f"{TOOL_CACHE}{ending}").unlink()


@dataclass(frozen=True)
class SampleResults:
    """Tool results kept among the replies of one sample; results of other samples are not seen."""

    replies: ReplyLog

    def find(self, key: str) -> KeptResult | None:
        if (found := self.replies.get(key)) is None:
            return None
        kept = json.loads(found)
        return KeptResult(kept["returned"], tuple(kept["events"]), kept["facts"])

    def keep(self, key: str, result: KeptResult) -> None:
        if self.replies.get(key) is not None:
            return
        kept = {"returned": result.returned, "events": result.events, "facts": result.facts}
        self.replies.put(key, json.dumps(kept, default=str))
