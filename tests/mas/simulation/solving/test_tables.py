"""Tables read from text, and what of them a question names."""

import pytest

from mas.simulation.solving.tables import Table, find_filters, read_tables, score_columns, select_rows, select_sheets

ROOMS = Table("", ["Room", "Floor", "Year"], [["Hall", "1", "1990"], ["Attic", "3", "1990"], ["Old Hall", "1", ""]], [])
SHEET = Table("Stock", ["Item", "Count"], [["Pen", "12"], ["Ink", "7"]], ["4", "5"], "3")
TWO = "Sheet: Ropes\nItem | Price\nRope | 4\n\nSheet: 'Sails' (hidden)\nItem | Price\nJib | 12\nSail | 30"


def test_a_table_is_written_as_it_is_read() -> None:
    for table in (ROOMS, SHEET):
        assert read_tables(table.text()) == [table]
    assert SHEET.text() == "Sheet: Stock\nrow | A | B\n3 | Item | Count\n4 | Pen | 12\n5 | Ink | 7"


def test_sheets_are_read_apart_with_their_names() -> None:
    assert [(table.name, len(table.rows)) for table in read_tables(TWO)] == [("Ropes", 1), ("Sails", 2)]


def test_rulers_marks_row_numbers_and_short_rows_are_no_cells() -> None:
    text = "row | Item | Count\n--- | --- | ---\n1 | Pen | 12 [hidden row]\n2 | Ink"
    assert read_tables(text) == [Table("", ["Item", "Count"], [["Pen", "12"], ["Ink", ""]], [])]
    (titled,) = read_tables("row | A | B\n1 | Stock of May |\n2 | Item | Count\n3 | Pen | 12")
    assert (titled.header, titled.rows, titled.row_numbers, titled.header_number) == (
        ["Item", "Count"], [["Pen", "12"]], ["3"], "2"
    )  # fmt: skip


def test_a_line_alone_is_no_table() -> None:
    assert read_tables("a | b\n\ntext") == []
    assert [table.rows for table in read_tables("a | b\n1 | 2\n| 3 |")] == [[["1", "2"], ["3", ""]]]


def test_a_cell_is_found_by_its_reference() -> None:
    assert [SHEET.cell(each) for each in ("A4", "b5", "C4", "A3", "A6")] == ["Pen", "7", None, None, None]


def test_chosen_rows_keep_their_numbers() -> None:
    assert SHEET.with_rows([["Ink", "7"]]) == Table("Stock", ["Item", "Count"], [["Ink", "7"]], ["5"], "3")
    assert ROOMS.with_rows([]).row_numbers == []


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [(["1", "2"], True), (["1", "x"], False), (["1", "2", "x"], True), (["", "4"], True), ([""], False)],
)
def test_a_column_is_numeric_if_most_of_its_filled_cells_are(cells: list[str], numeric: bool) -> None:
    assert Table("", ["n"], [[cell] for cell in cells], []).is_numeric(0) is numeric


@pytest.mark.parametrize(
    ("question", "filters", "names"),
    [
        ("On which floor is the attic?", {0: ["Attic"]}, ["Attic"]),
        ("Which floor has the Old Hall?", {0: ["Old Hall"]}, ["Old Hall"]),  # not the Hall as well
        ("Which rooms are on floor 1?", {1: ["1"]}, ["Hall", "Old Hall"]),
        ("Which rooms are of 1990?", {2: ["1990"]}, ["Hall", "Attic"]),
        ("Are the attic and the hall alike?", {0: ["Attic", "Hall"]}, ["Hall", "Attic"]),
        ("Was the Attic on floor 1 built in 1990?", {0: ["Attic"], 1: ["1"], 2: ["1990"]}, ["Attic"]),
        ("How many rooms?", {}, ["Hall", "Attic", "Old Hall"]),
    ],
)
def test_rows_are_chosen_by_the_values_that_a_question_names(
    question: str, filters: dict[int, list[str]], names: list[str]
) -> None:
    assert find_filters(question, ROOMS) == filters
    assert [row[0] for row in select_rows(question, ROOMS)] == names


def test_columns_are_scored_by_shared_and_suggested_words() -> None:
    table = Table("", ["Item", "Unit price", "Weight"], [["Pen", "1", "2"]], [])
    assert score_columns("What is the unit price of the item?", table) == pytest.approx([1.1, 1.2, 0.0])
    assert score_columns("Which price is given?", table) == pytest.approx([0.0, 0.6, 0.0])
    assert score_columns("Which is the heaviest, and which the cheapest?", table) == pytest.approx([0.0, 0.3, 0.3])


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What is on the sheet Sails and on Ropes?", ["Sails", "Ropes"]),
        ("What is the price of the jib?", ["Sails"]),
        ("What is the price of the rope?", ["Ropes"]),
    ],
)
def test_the_sheet_is_the_one_that_is_named_or_that_has_what_is_asked_for(question: str, names: list[str]) -> None:
    assert [table.name for table in select_sheets(question, read_tables(TWO))] == names
    assert select_sheets(question, []) == []


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("row | A | B\n1 | Item | Count", Table("", ["Item", "Count"], [], [], "1")),
        ("row | A | Item\n1 | Pen | 12", Table("", ["A", "Item"], [["Pen", "12"]], [])),
        ("row | A | Item\nx | Pen | 12", Table("", ["row", "A", "Item"], [["x", "Pen", "12"]], [])),
        ("row | item\nx | Pen\n2 | Ink", Table("", ["row", "item"], [["x", "Pen"], ["2", "Ink"]], [])),
        ("row | A\n1 | Item\n2 | Pen", Table("", ["Item"], [["Pen"]], ["2"], "1")),
        ("a | b | c\n1 | -- | 2", Table("", ["a", "b", "c"], [["1", "--", "2"]], [])),
        ("a | b | c\n1 | 2", Table("", ["a", "b", "c"], [["1", "2", ""]], [])),
        ("row | A | B | C\n1 | Fleet | |\n2 | Item | Count |\n3 | Pen | 4 | x",
         Table("", ["Item", "Count"], [["Pen", "4"]], ["3"], "2")),
    ],
)  # fmt: skip
def test_a_table_has_a_header_and_perhaps_row_numbers(text: str, table: Table) -> None:
    assert read_tables(text) == [table]


PARTS = Table("", ["Part", "Mark", "Build year", "Grade"],
              [["A", "X", "7", "12"], ["Bolt", "Xy", "1990", "12"], ["Bolt nut", "Z", "8", "13"]], [])  # fmt: skip


@pytest.mark.parametrize(
    ("question", "filters"),
    [
        ("Bolt: how many?", {0: ["Bolt"]}),
        ("Bolt nut: how many?", {0: ["Bolt nut"]}),
        ("Where is part A of it?", {0: ["A"]}),
        ("Is X there?", {}),  # a single letter names a row in the first column alone
        ("Is mark X there?", {1: ["X"]}),
        ("Mark X", {1: ["X"]}),
        ("Is Xy there?", {1: ["Xy"]}),
        ("What has 7?", {2: ["7"]}),
        ("Which of them have 12?", {}),  # a number is a value only of a column that is named
        ("Which of them have grade 12?", {3: ["12"]}),
    ],
)
def test_a_value_is_named_in_the_first_column_a_year_or_a_column_whose_title_is_named(
    question: str, filters: dict[int, list[str]]
) -> None:
    assert find_filters(question, PARTS) == filters


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Ropes have which price?", ["Ropes"]),
        ("What is the price?", ["Ropes"]),  # of two sheets that fit alike the first
        ("Does the jib have an item and a price?", ["Sails"]),
    ],
)
def test_a_row_that_is_named_counts_more_than_a_column(question: str, names: list[str]) -> None:
    assert [table.name for table in select_sheets(question, read_tables(TWO))] == names
