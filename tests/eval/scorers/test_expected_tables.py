"""Execution match: which tables count as the same, and what a gold query may do."""

import sqlite3
from pathlib import Path
from random import Random

import pytest

from eval.scorers.expected import is_same_table, normalise_cell, run_gold_query
from eval.scorers.score import ScorerError

PAIRS = [["a", 1], ["b", 2], ["b", 2]]


@pytest.mark.parametrize(
    ("found", "options", "same"),
    [
        (PAIRS, {}, True),
        ([["b", 2], ["a", 1], ["b", 2]], {}, True),  # the order of rows is free
        ([["b", 2], ["a", 1], ["b", 2]], {"ordered": True}, False),
        ([["a", 1], ["b", 2]], {}, False),  # a multiset: duplicates count
        ([[1, "A"], [2, "B"], [2, "b "]], {}, True),  # order of columns, case and surplus spaces are free
        ([["a", 2], ["b", 1], ["b", 2]], {}, False),  # the same values in each column, in crossed rows
        ([["a", 1, 9], ["b", 2, 9], ["b", 2, 8]], {}, False),
        ([["a", 1, 9], ["b", 2, 9], ["b", 2, 8]], {"extra_columns": True}, True),
        ([["a"], ["b"], ["b"]], {"extra_columns": True}, False),
        ([["a", 1], ["b", None], ["b", 2]], {}, False),
        ([["a", 1], ["b"], ["b", 2]], {}, False),  # a ragged table
    ],
)
def test_rows_are_a_multiset_whose_columns_may_be_in_any_order(
    found: list[list[object]], options: dict[str, bool], same: bool
) -> None:
    assert is_same_table(PAIRS, found, **options) is same


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (0.1 + 0.2, 0.3, True),
        (1 / 3, 0.333333, True),
        (1 / 3, 0.33333, False),
        (2, 2.0, True),
        (1234.9999999999998, 1235, True),
        (12345678, 12345679, False),  # whole numbers such as ids are exact
        ("2024-01-05", "2024-01-05T00:00:00", True),
        ("2024-01-05 10:30", "2024-01-05T11:30:00+01:00", True),
        ("2024-01-05", "2024-05-01", False),
        ("2024-01-05", "2024-01-05 10:30", False),
        ("01234", 1234, False),  # a code is a text
        (None, "", False),
        (None, 0, False),
        (True, 1, True),
        ("Zoë  B", "zoë b", True),
    ],
)
def test_a_cell_has_one_form_for_all_its_spellings(left: object, right: object, same: bool) -> None:
    assert (normalise_cell(left) == normalise_cell(right)) is same
    assert is_same_table([[left]], [[right]]) is same


def test_a_shuffled_table_is_found_again_and_one_changed_cell_is_seen() -> None:
    random = Random(5)
    for _ in range(200):
        n_rows, n_columns = random.randint(1, 8), random.randint(1, 5)
        gold = [[random.choice(["x", "y", 1, 2.5, None]) for _ in range(n_columns)] for _ in range(n_rows)]
        columns, rows = list(range(n_columns)), list(gold)
        random.shuffle(columns)
        random.shuffle(rows)
        found = [[row[index] for index in columns] for row in rows]
        assert is_same_table(gold, found)
        found[random.randrange(n_rows)][random.randrange(n_columns)] = "changed"
        assert not is_same_table(gold, found)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "shop.sqlite") as connection:
        connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
    return tmp_path / "shop.sqlite"


def test_a_gold_query_reads_the_database_as_it_is_now(shop: Path) -> None:
    assert run_gold_query(shop, "SELECT sum(a) FROM t") == [(3,)]
    with sqlite3.connect(shop) as connection:
        connection.execute("INSERT INTO t VALUES (4)")
    assert run_gold_query(shop, "WITH RECURSIVE n(i) AS (SELECT 1) SELECT sum(a) FROM t, n") == [(7,)]


@pytest.mark.parametrize(
    "query",
    ["DELETE FROM t", "ATTACH 'other.sqlite' AS o", "SELECT * FROM nowhere", "PRAGMA user_version = 3", "no SQL"],
)
def test_a_gold_query_that_does_not_only_read_is_an_error_of_the_data(shop: Path, query: str) -> None:
    with pytest.raises(ScorerError, match=r"shop\.sqlite"):
        run_gold_query(shop, query)
    assert run_gold_query(shop, "SELECT count(*) FROM t") == [(2,)]
    assert [file.name for file in shop.parent.iterdir()] == ["shop.sqlite"]
