"""Replies and results of tools that a run may use besides its own call log.

`ToolCache` (tools.db) has what the run's read-only tools returned; `SharedCache` has replies for all runs on this
machine (`cache.lm=shared`). Loaded by a run that uses one of them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eval.cli.paths import OUTPUTS
from eval.config.evaluation import CacheSettings
from eval.runs.call_log import REPLIES, TOOL_CACHE, Caches, SampleReplies
from eval.runs.sqlite_file import BestEffortSqlite, decode_text, encode_text
from mas.runtime.sample_context import KeptResult, ReplyLog
from mas.runtime.security.redaction import Redact, encode_secret, redact_value
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
    """Results of one run's read-only tools.

    Keys are digests of the call (`mas.tools.read_only`), and no secret is in what is kept. Two samples that make one
    call at the same time both make it, and the first result is kept: a resumed run finds it for both. Any thread.
    """

    tables = (
        """
CREATE TABLE IF NOT EXISTS tool_results(
    key TEXT PRIMARY KEY,        -- SHA-256 of the call and of all that its result depends on
    returned BLOB NOT NULL,      -- UTF-8, lone surrogates as they are
    facts TEXT NOT NULL,         -- JSON: kind, sources and so on of the result
    events TEXT NOT NULL         -- JSON: events that the tool noted during the call
)""",
    )
    consequence = "the calls of its tools are made again"

    def __init__(self, path: Path, redact: Redact, warn: Callable[[str], None] = print_warning) -> None:
        """`redact`: takes the run's secrets out of a text."""
        self._redact = redact
        super().__init__(path, "the run's tool results", warn, set_aside=True)

    def find(self, key: str) -> KeptResult | None:
        rows = self.execute("SELECT returned, events, facts FROM tool_results WHERE key = ?", key)
        if not rows:
            return None
        returned, events, facts = rows[0]
        return KeptResult(decode_text(returned), tuple(json.loads(events)), json.loads(facts))

    def keep(self, key: str, result: KeptResult) -> None:
        facts = json.dumps(redact_value(dict(result.facts), self._redact), default=str)
        events = json.dumps(redact_value(list(result.events), self._redact), default=str)
        returned = encode_text(self._redact(result.returned))
        self.execute("INSERT OR IGNORE INTO tool_results VALUES(?, ?, ?, ?)", key, returned, facts, events)


@contextmanager
def open_caches(settings: CacheSettings, folder: Path, redact: Redact) -> Iterator[Caches]:
    """Open the caches that a run is to use; `redact` takes secrets out of results."""
    with ExitStack() as stack:
        replies = results = None
        if settings.lm == "shared":
            replies = stack.enter_context(closing(SharedCache(OUTPUTS / "cache" / "lm.db")))
        if settings.tools == "run":
            results = stack.enter_context(closing(ToolCache(folder / TOOL_CACHE, redact)))
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
