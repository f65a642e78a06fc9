"""The file of a search's first answers, `trials.db`: one row for each (prompts, example, epoch).

rows = TrialRows(folder / "trials.db")
rows.add((digest(prompts), "q1", 1), record)      # a row that is there already stays as it is, unless it is an error
rows.close()
"""

import sqlite3
import threading
from pathlib import Path

from eval.record import Record

Key = tuple[str, str, int]  # digest of the prompts, example id, epoch

_SCHEMA = """
CREATE TABLE IF NOT EXISTS trials(
    candidate TEXT NOT NULL,     -- digest of its prompts
    example_id TEXT NOT NULL,
    epoch INT NOT NULL,
    score REAL,                  -- NULL: in error
    error_class TEXT,
    lm_calls INT NOT NULL,       -- replayed ones included
    cost_usd REAL,               -- NULL: unknown
    wall_seconds REAL NOT NULL,
    PRIMARY KEY(candidate, example_id, epoch)
)"""

_ADD = """
INSERT INTO trials VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
score = excluded.score, error_class = excluded.error_class, lm_calls = excluded.lm_calls, cost_usd = excluded.cost_usd,
wall_seconds = excluded.wall_seconds WHERE trials.error_class IS NOT NULL"""


class TrialRows:
    """Any thread. Written without waiting for the disk: kill -9 loses nothing."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            sqlite3.Error, OSError: the file cannot be used.
        """
        self._turns = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(_SCHEMA)

    def add(self, key: Key, record: Record) -> None:
        usage = record.usage
        found = (record.score, record.error_class, usage.lm_calls, usage.cost_usd, record.wall_seconds)
        with self._turns:
            self._database.execute(_ADD, (*key, *found))

    def close(self) -> None:
        with self._turns:
            self._database.close()
