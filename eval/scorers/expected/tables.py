"""Execution match: a table that a program found against the rows of a gold query.

    gold = run_gold_query(Path("shop.sqlite"), "SELECT city, count(*) FROM customers GROUP BY city")
    is_same_table(gold, [[3, "OSLO"], [1, "Bergen"]])            # True: order of rows and columns and case are free
    is_same_table([["a", 1], ["b", 2]], [["a", 2], ["b", 1]])    # False: the values are there, in other rows

Rows are compared as a multiset, in order only where the data say so. Whole numbers are compared exactly, others to 6
significant digits; texts without case and surplus white space; dates in one ISO form, midnight being the date alone.
"""

import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from eval.scorers.score import ScorerError

MAX_SECONDS = 30.0  # of one gold query
MAX_TRIALS = 20_000  # assignments of columns that are looked at
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)

Cell = str | float | int | None
Rows = Sequence[Sequence[object]]


def run_gold_query(database: Path, query: str) -> list[tuple[object, ...]]:
    """Return the rows of a gold query, which can only read.

    Raises:
        ScorerError: the database is missing, or the query fails or takes too long.
    """
    try:
        connection = sqlite3.connect(f"file:{quote(str(database.absolute()))}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise ScorerError(f"the database {database.name} of a gold query cannot be opened ({error})") from error
    ends = time.monotonic() + MAX_SECONDS
    try:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY)
        connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
        return connection.execute(query).fetchall()
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise ScorerError(f"a gold query cannot be run on {database.name} ({type(error).__name__}: {error})") from error
    finally:
        connection.close()


def is_same_table(gold: Rows, found: Rows, *, ordered: bool = False, extra_columns: bool = False) -> bool:
    """Return whether two tables hold the same rows, whatever their columns' order.

    Args:
        gold: rows that are expected.
        found: rows of the program.
        ordered: True: the order of the rows counts.
        extra_columns: True: `found` may have further columns.
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
    return _assign(wanted, there, ordered)


def normalise_cell(value: object) -> Cell:
    """Return one value for all spellings of a cell."""
    if value is None or isinstance(value, bool):
        return None if value is None else int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return _normalise_number(value)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    text = " ".join(str(value).split())
    return _normalise_date(text) if _ISO.fullmatch(text) else text.casefold()


def _normalise_number(value: float) -> float | int | str:
    if not math.isfinite(value):
        return str(value)
    if math.isclose(value, round(value), rel_tol=1e-9, abs_tol=1e-9):
        return round(value)
    return float(f"{value:.6g}")


def _normalise_date(text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    if found.tzinfo is not None:
        found = found.astimezone(UTC).replace(tzinfo=None)
    is_date = (found.hour, found.minute, found.second, found.microsecond) == (0, 0, 0, 0)
    return found.date().isoformat() if is_date else found.isoformat()


def _assign(wanted: list[list[Cell]], there: list[list[Cell]], ordered: bool) -> bool:
    """Return whether each wanted column has one of its own there, so that the rows as a whole are the same."""
    trials = 0

    def extend(chosen: tuple[int, ...]) -> bool:
        nonlocal trials
        if len(chosen) == len(wanted):
            return True
        for index in _list_unlike(there, chosen):
            trials += 1
            if trials > MAX_TRIALS:
                return False
            attempt = (*chosen, index)
            left = zip(*wanted[: len(attempt)], strict=True)
            right = zip(*(there[each] for each in attempt), strict=True)
            same = list(left) == list(right) if ordered else Counter(left) == Counter(right)
            if same and extend(attempt):
                return True
        return False

    return extend(())


def _list_unlike(there: list[list[Cell]], chosen: tuple[int, ...]) -> Iterator[int]:
    """Yield the columns that are left, of equal ones the first."""
    seen: list[list[Cell]] = []
    for index, column in enumerate(there):
        if index not in chosen and column not in seen:
            seen.append(column)
            yield index
