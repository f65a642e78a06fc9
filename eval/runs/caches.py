"""Replies and results of tools that a run may use besides its own call log.

`ToolCache` (tools.db) has what read-only tools returned; `SharedCache`, and a `ToolCache` that is shared, are for all
runs on this machine, with `cache.lm=shared` and `cache.tools=shared`. Loaded by a run that uses one of them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from eval.cli.paths import OUTPUTS
from eval.config.evaluation import CacheSettings
from eval.runs.call_log import REPLIES, TOOL_CACHE, Caches, SampleReplies
from eval.runs.sqlite_file import BestEffortSqlite, decode_text, encode_text
from mas.runtime.sample_context import KeptResult, ReplyLog
from mas.runtime.security.redaction import encode_secret, redact_value
from mas.runtime.terminal import print_warning


class _ReplyFile(BestEffortSqlite):
    tables = (REPLIES,)


class SharedCache(SampleReplies):
    """Replies for every run that makes the same request. Any number of threads and processes."""

    def __init__(self, path: Path, warn: Callable[[str], None] = print_warning) -> None:
        super().__init__(_ReplyFile(path, "the shared cache", warn), sample="")

    def close(self) -> None:
        self.file.close()


@dataclass(frozen=True)
class MaskedReplies:
    """Reply log that stores replies without the run's secrets, which a server may have repeated, and restores them.

    A reply must come back as it was, because later requests, and their keys, are made of it. If a secret has changed
    since, the new one is restored.
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
