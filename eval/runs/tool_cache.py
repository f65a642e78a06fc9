"""What read-only tools returned, kept so that the same call is not made twice: `cache.tools`.

    results = ToolCache.of_run(folder, run_id, redact)          # run: any question, epoch, try and session of this run
    results = ToolCache.shared(OUTPUTS, run_id, redact)         # shared: any run on this machine
    results.keep(key, KeptResult("41 metres"))
    results.find(key)                     # the result; its `other_run_at` is None, for this run kept it
    results.close()
    remove_tool_results(folder)           # nobody will ask for them any more

Keys are digests of the call (`mas.tools.read_only`), and no secret is in what is kept. A file that cannot be used costs
calls, never a question; so does a row that cannot be read. Two questions that make the same call at the same time both
make it, and both are told what the first of them was: so a resumed run finds what either saw.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from eval.runs.best_effort_sqlite import BestEffortSqlite, as_bytes, as_text, warned
from eval.runs.redaction import redact
from mas.runtime.sample_context import KeptResult, ReplyLog

TOOL_CACHE = "tools.db"


class _ResultFile(BestEffortSqlite):
    tables = (
        """
CREATE TABLE IF NOT EXISTS tool_results(
    key BLOB PRIMARY KEY,        -- SHA-256 of the call and of all that its result depends on
    returned BLOB NOT NULL,      -- UTF-8, lone surrogates as they are
    facts BLOB NOT NULL,         -- JSON: kind, sources and so on of the result
    events BLOB NOT NULL,        -- JSON: what the tool noted while it was asked
    run_id TEXT NOT NULL,        -- that asked
    kept_at TEXT NOT NULL        -- UTC, ISO 8601
)""",
    )
    instead = "the calls of its tools are made again"
    anew = "calls of tools that were answered before are made again"


class ToolCache:
    """One run's view of a file. Any thread; any number of processes if it is shared, else the one with the store."""

    def __init__(
        self, file: BestEffortSqlite, run_id: str, redact: Callable[[str], str], warn: Callable[[str], None] = warned
    ) -> None:
        """`redact`: takes the run's secrets out of a text."""
        self._file, self._run_id, self._redact, self._warn = file, run_id, redact, warn

    @classmethod
    def of_run(
        cls, folder: Path, run_id: str, redact: Callable[[str], str], warn: Callable[[str], None] = warned
    ) -> "ToolCache":
        file = _ResultFile(folder / TOOL_CACHE, "the run's tool results", warn, set_aside=True)
        return cls(file, run_id, redact, warn)

    @classmethod
    def shared(
        cls, outputs: Path, run_id: str, redact: Callable[[str], str], warn: Callable[[str], None] = warned
    ) -> "ToolCache":
        return cls(_ResultFile(outputs / "cache" / TOOL_CACHE, "the shared cache", warn), run_id, redact, warn)

    def find(self, key: str) -> KeptResult | None:
        rows = self._file.execute(
            "SELECT returned, facts, events, run_id, kept_at FROM tool_results WHERE key = ?", as_bytes(key)
        )
        if not rows:
            return None
        returned, facts, events, run_id, kept_at = rows[0]
        try:
            other_run_at = None if run_id == self._run_id else kept_at
            return KeptResult(
                as_text(returned), tuple(json.loads(as_text(events))), json.loads(as_text(facts)), other_run_at
            )
        except ValueError as error:  # no UTF-8, no JSON: bytes that went bad on the disk, which SQLite does not notice
            self._warn(f"a tool result in {self._file.path} cannot be read ({error}); its call is made again")
            self._file.execute("DELETE FROM tool_results WHERE key = ?", as_bytes(key))
            return None

    def keep(self, key: str, result: KeptResult) -> None:
        facts = json.dumps(redact(dict(result.facts), self._redact), default=str)
        events = json.dumps(redact(list(result.events), self._redact), default=str)
        kept_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.execute(
            "INSERT OR IGNORE INTO tool_results VALUES(?, ?, ?, ?, ?, ?)",
            *(as_bytes(key), as_bytes(self._redact(result.returned)), as_bytes(facts), as_bytes(events)),
            *(self._run_id, kept_at),
        )

    def close(self) -> None:
        self._file.close()


def remove_tool_results(folder: Path) -> None:
    """Of a run that is complete; also those of an earlier session, where this one had another `cache.tools`."""
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):
            (folder / f"{TOOL_CACHE}{ending}").unlink(missing_ok=True)


@dataclass(frozen=True)
class SampleResults:
    """Among the replies that one sample has had: what a tool told another sample is not asked for here."""

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
