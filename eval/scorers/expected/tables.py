"""Execution match: a table that a program found against the rows of a gold query.

gold = run_gold_query(Path("shop.sqlite"), "SELECT city, count(*) FROM customers GROUP BY city")
is_same_table(gold, [[3, "OSLO"], [1, "Bergen"]])            # True: order of rows and columns and case are free
is_same_table([["a", 1], ["b", 2]], [["a", 2], ["b", 1]])    # False: the values are there, in other rows
"""

import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice, product
from pathlib import Path
from urllib.parse import quote

from eval.scorers.score import ScorerError

MAX_SECONDS = 30.0  # of one gold query
MAX_TRIALS = 100_000  # assignments of columns that are looked at
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)

Cell = str | float | int | None
Rows = Sequence[Sequence[object]]


def run_gold_query(database: Path, query: str) -> list[tuple[object, ...]]:
    """Return the rows of a gold query, which can only read. ScorerError: it fails, or takes too long."""
    connection, ends = None, time.monotonic() + MAX_SECONDS
    try:
        connection = sqlite3.connect(f"file:{quote(str(database.absolute()))}?mode=ro", uri=True)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY)
        connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
        return connection.execute(query).fetchall()
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise ScorerError(f"a gold query cannot be run on {database.name} ({type(error).__name__}: {error})") from error
    finally:
        if connection:
            connection.close()


def is_same_table(gold: Rows, found: Rows, *, ordered: bool = False, extra_columns: bool = False) -> bool:
    """Return whether two tables hold the same rows, whatever their columns' order.

    `ordered`: the order of the rows counts; `extra_columns`: the table that was found may have further columns.
    """
    if len(gold) != len(found):
        return False
    if not gold:
        return True  # a table without rows: its columns say nothing
    n_gold, n_found = len(gold[0]), len(found[0])
    if n_found < n_gold or (n_found > n_gold and not extra_columns) or any(len(row) != n_found for row in found):
        return False
    wanted = [[normalise_cell(row[index]) for row in gold] for index in range(n_gold)]
    there = [[normalise_cell(row[index]) for row in found] for index in range(n_found)]
    rows = Counter(zip(*wanted, strict=True))
    # Each wanted column may be any of those with its values; then the rows as a whole decide.
    choices = [[index for index in range(n_found) if Counter(there[index]) == Counter(column)] for column in wanted]
    for chosen in islice(product(*choices), MAX_TRIALS):
        columns = [there[index] for index in chosen]
        is_same = columns == wanted if ordered else Counter(zip(*columns, strict=True)) == rows
        if is_same and len(set(chosen)) == n_gold:
            return True
    return False


def normalise_cell(value: object) -> Cell:
    """Return one value for all spellings of a cell."""
    if value is None or isinstance(value, bool):
        return None if value is None else int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        is_whole = math.isclose(value, round(value), rel_tol=1e-9, abs_tol=1e-9)
        return round(value) if is_whole else float(f"{value:.6g}")
    if isinstance(value, int):
        return value
    if isinstance(value, bytes):
        return "0x" + value.hex()
    text = " ".join(str(value).split())
    return _normalise_date(text) if _ISO.fullmatch(text) else text.casefold()


def _normalise_date(text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    if found.tzinfo is not None:
        found = found.astimezone(UTC).replace(tzinfo=None)
    return found.isoformat().removesuffix("T00:00:00")
