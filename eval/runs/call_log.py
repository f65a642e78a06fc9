"""Replies of models and results of tools, kept so that no call is made or paid for twice.

A run's `CallLog` (calls.db) has the replies to its unfinished samples, so that an interrupted sample continues where it
was; `ToolCache` (tools.db) has what read-only tools returned. `SharedCache` and `ToolCache.open_shared` are for all
runs on this machine, with `cache.lm=shared` and `cache.tools=shared`.

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

Both files are conveniences: a full disk or a broken file costs calls, never a sample, and is reported once.
"""

import json
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from eval.cli.paths import OUTPUTS
from eval.config.evaluation import CacheSettings
from eval.runs.record import PAID, Usage
from eval.runs.sqlite_file import BestEffortSqlite, encode_text, seal_text, unseal_text
from mas.runtime.sample_context import KeptResult, Payment, ReplyLog, SampleKey, ToolResults
from mas.runtime.security.redaction import encode_secret, redact_value
from mas.runtime.terminal import print_warning

CALL_LOG = "calls.db"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies(
    sample TEXT NOT NULL,        -- JSON: sample id, epoch, attempt; empty in the cache that all runs share
    key BLOB NOT NULL,
    reply BLOB NOT NULL,         -- checksum and UTF-8, lone surrogates as they are
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
    consequence_of_new = "interrupted questions make their calls again"
    _has_refused = False

    def get(self, sample_key: str, key: str) -> str | None:
        rows = self.execute("SELECT reply FROM replies WHERE sample = ? AND key = ?", sample_key, encode_text(key))
        try:
            return unseal_text(rows[0][0]) if rows else None
        except ValueError as error:
            if not self._has_refused:  # there may be thousands
                self._warn(f"a reply in {self.path} is damaged ({error}); its call is made again, as of any other such")
            self._has_refused = True
            self.execute("DELETE FROM replies WHERE sample = ? AND key = ?", sample_key, encode_text(key))
            return None

    def read_all(self, sample_key: str) -> dict[str, str]:
        found = {}
        for (kept,) in self.execute("SELECT key FROM replies WHERE sample = ?", sample_key):
            key = kept.decode("utf-8", "surrogatepass")
            if (reply := self.get(sample_key, key)) is not None:
                found[key] = reply
        return found

    def put(self, sample_key: str, key: str, reply: str) -> None:
        values = sample_key, encode_text(key), seal_text(reply)
        self.execute("INSERT OR REPLACE INTO replies VALUES(?, ?, ?)", *values)

    def count(self) -> int:
        rows = self.execute("SELECT count(*) FROM replies")
        return rows[0][0] if rows else 0


class CallLog:
    """Replies to a run's unfinished samples. Any thread; one process, the one that holds the store."""

    def __init__(self, path: Path, warn: Callable[[str], None] = print_warning) -> None:
        """Open the file or make it. A broken one is set aside and a new one begun.

        Args:
            path: of the file.
            warn: called at the first failure, and for each reply that cannot be used.
        """
        self._file = _RunFile(path, "the run's call log", warn, set_aside=True)

    def for_sample(self, sample_key: SampleKey) -> ReplyLog:
        """Return the replies of one attempt at a sample."""
        return _SampleReplies(self._file, _name(sample_key))

    def pay(self, sample_key: SampleKey, payment: Payment) -> None:
        """Add the cost of one request of the sample."""
        self._file.pay(_name(sample_key), payment)

    def read_replies(self, sample_key: SampleKey) -> dict[str, str]:
        """Return the kept replies of one attempt at a sample by key; damaged ones are left out."""
        return self._file.read_all(_name(sample_key))

    def sum_paid(self, sample_key: SampleKey) -> Usage:
        """Return what the sample has cost in all sessions of the run."""
        return self._file.paid("WHERE sample = ?", _name(sample_key))

    def sum_total(self) -> Usage:
        """Return the cost of all samples that are not forgotten, in all sessions of the run."""
        return self._file.paid()

    def forget(self, sample_key: SampleKey) -> None:
        """Remove the replies of a sample whose record is in the store."""
        self._file.forget(_name(sample_key))

    def forget_finished(self, finished: Container[tuple[str, int, int]]) -> None:
        """Forget samples that were stored just before the process was killed, by (id, epoch, attempt)."""
        for name in self._file.samples():
            if tuple(json.loads(name)) in finished:
                self._file.forget(name)

    def count(self) -> int:
        """Return the number of kept replies."""
        return self._file.count()

    def close(self) -> None:
        """Remove the file if nothing is left in it, as after every complete run. Closing twice is harmless."""
        self._file.close_and_tidy()


class _RunFile(_ReplyFile):
    """Replies and the account of each sample."""

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
    """Replies for every run that makes the same request. Any number of threads and processes."""

    def __init__(self, path: Path, warn: Callable[[str], None] = print_warning) -> None:
        super().__init__(_ReplyFile(path, "the shared cache", warn), sample_key="")

    def close(self) -> None:
        self._file.close()


def _name(sample_key: SampleKey) -> str:
    return json.dumps([sample_key.sample_id, sample_key.epoch, sample_key.attempt])


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
        if reply is None or "\x00" not in reply:
            return reply
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


class _ResultFile(BestEffortSqlite):
    tables = (
        """
CREATE TABLE IF NOT EXISTS tool_results(
    key BLOB PRIMARY KEY,        -- SHA-256 of the call and of all that its result depends on
    returned BLOB NOT NULL,      -- checksum and UTF-8, lone surrogates as they are
    facts BLOB NOT NULL,         -- checksum and JSON: kind, sources and so on of the result
    events BLOB NOT NULL,        -- checksum and JSON: events that the tool noted during the call
    run_id TEXT NOT NULL,        -- of the call
    kept_at TEXT NOT NULL        -- UTC, ISO 8601
)""",
    )
    consequence = "the calls of its tools are made again"
    consequence_of_new = "calls of tools that were answered before are made again"


class ToolCache:
    """Results of read-only tools, as one run sees them.

    Keys are digests of the call (`mas.tools.read_only`), and no secret is in what is kept. Two samples that make one
    call at the same time both make it, and the first result is kept: a resumed run finds it for both. Any thread; any
    number of processes if the file is shared, else the one that holds the store.
    """

    def __init__(
        self,
        file: BestEffortSqlite,
        run_id: str,
        redact: Callable[[str], str],
        warn: Callable[[str], None] = print_warning,
    ) -> None:
        """`redact`: takes the run's secrets out of a text."""
        self._file, self._run_id, self._redact, self._warn = file, run_id, redact, warn
        self._has_refused = False

    @classmethod
    def open_for_run(
        cls, folder: Path, run_id: str, redact: Callable[[str], str], warn: Callable[[str], None] = print_warning
    ) -> Self:
        file = _ResultFile(folder / TOOL_CACHE, "the run's tool results", warn, set_aside=True)
        return cls(file, run_id, redact, warn)

    @classmethod
    def open_shared(
        cls, outputs: Path, run_id: str, redact: Callable[[str], str], warn: Callable[[str], None] = print_warning
    ) -> Self:
        return cls(_ResultFile(outputs / "cache" / TOOL_CACHE, "the shared cache", warn), run_id, redact, warn)

    def find(self, key: str) -> KeptResult | None:
        rows = self._file.execute(
            "SELECT returned, facts, events, run_id, kept_at FROM tool_results WHERE key = ?", encode_text(key)
        )
        if not rows:
            return None
        returned, facts, events, run_id, kept_at = rows[0]
        try:
            other_run_at = None if run_id == self._run_id else kept_at
            return KeptResult(
                unseal_text(returned),
                tuple(json.loads(unseal_text(events))),
                json.loads(unseal_text(facts)),
                other_run_at,
            )
        except ValueError as error:  # bytes that went bad on the disk, which SQLite does not notice
            if not self._has_refused:
                self._warn(
                    f"a tool result in {self._file.path} cannot be read ({error}); its call is made again, as of any "
                    "other such"
                )
            self._has_refused = True
            self._file.execute("DELETE FROM tool_results WHERE key = ?", encode_text(key))
            return None

    def keep(self, key: str, result: KeptResult) -> None:
        facts = json.dumps(redact_value(dict(result.facts), self._redact), default=str)
        events = json.dumps(redact_value(list(result.events), self._redact), default=str)
        kept = (self._redact(result.returned), facts, events)
        kept_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.execute(
            "INSERT OR IGNORE INTO tool_results VALUES(?, ?, ?, ?, ?, ?)",
            *(encode_text(key), *map(seal_text, kept)),
            *(self._run_id, kept_at),
        )

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class Caches:
    """Caches that the samples of a session share. Any number of processes may use the same ones."""

    replies: ReplyLog | None = None  # of all runs; None: each call is made
    results: ToolResults | None = None  # what tools returned earlier, to this run or to any; None: each call is made


@contextmanager
def open_caches(settings: CacheSettings, folder: Path, run_id: str, redact: Callable[[str], str]) -> Iterator[Caches]:
    """Open the caches that a run is to use.

    Args:
        settings: the part `cache` of the configuration.
        folder: of the run.
        run_id: noted with each result that is added.
        redact: takes secrets out of results.
    """
    with ExitStack() as stack:
        replies = results = None
        if settings.lm == "shared":
            replies = stack.enter_context(closing(SharedCache(OUTPUTS / "cache" / "lm.db")))
        if settings.tools == "shared":
            results = stack.enter_context(closing(ToolCache.open_shared(OUTPUTS, run_id, redact)))
        elif settings.tools == "run":
            results = stack.enter_context(closing(ToolCache.open_for_run(folder, run_id, redact)))
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
