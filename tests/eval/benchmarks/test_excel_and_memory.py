"""Samples in an Excel workbook and in the memory of a Python program: values arrive as they are seen."""

import math
import re
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy
import openpyxl
import pandas
import pytest
from openpyxl.worksheet.formula import ArrayFormula, DataTableFormula

from eval.benchmarks.dataset import Split
from eval.benchmarks.files import CsvDataset, ExcelDataset, InMemoryDataset
from mas.agents.targets import name_object
from mas.runtime.errors import UserError
from tests.file_bytes import zip_bytes
from tests.needs import needs

HEADER = ["id", "question", "answer"]


def write_sheet(file: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "asked"
    for row in rows:
        sheet.append(row)
    book.create_sheet("other").append(["x"])
    book.save(file)
    return file


def load(*rows: list[Any], folder: Path, **settings: Any) -> Split:
    file = write_sheet(folder / "q.xlsx", HEADER, *rows)
    return ExcelDataset(str(file), **settings).load("all")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *(("007", "007"), (7, "7"), (7.0, "7"), (0.5, "0.5"), (0.1 + 0.2, "0.3"), ("NA", "NA"), ("nan", "nan")),
        *((True, "TRUE"), (date(2024, 1, 31), "2024-01-31"), (datetime(2024, 1, 31, 9, 5), "2024-01-31 09:05:00")),
        *(("1e5", "1e5"), (123456789012, "123456789012"), ("None", "None"), (None, None), (" ", None)),
    ],
)
def test_a_cell_arrives_as_the_sheet_shows_it(tmp_path: Path, value: object, shown: str | None) -> None:
    assert load(["a", "q?", value], folder=tmp_path).samples[0].target == shown


def test_bad_rows_name_their_row_of_the_sheet(tmp_path: Path) -> None:
    """Also below an empty row and above the header."""
    rows = (
        [],
        HEADER,
        ["a", "q?", "1"],
        [],
        ["b", None, "2"],
        ["c", "q?", "=1/0"],
        ["a", "again?", "3"],
    )
    file = write_sheet(tmp_path / "q.xlsx", *rows)
    book = openpyxl.load_workbook(file)
    book["asked"]["C6"].value, book["asked"]["C6"].data_type = "#DIV/0!", "e"
    book.save(file)
    with pytest.raises(UserError) as raised:
        ExcelDataset(str(file)).load("all")
    assert str(raised.value).splitlines()[1:] == [
        f"  {file}, row 5: 'question' is missing or empty",
        f"  {file}, row 6: 'answer' holds an error of Excel, such as #N/A",
        f"  {file}, row 7: the id 'a' is already that of {file}, row 3",
    ]


@pytest.fixture
def without_libreoffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


UNCOMPUTED = ["=6*7", "=other!A1", ArrayFormula("C2", "=SUM(A1:A2*2)"), DataTableFormula("C2", r1="A1", r2="A2")]


@pytest.mark.parametrize("formula", UNCOMPUTED, ids=["number", "other sheet", "array", "table"])
def test_a_formula_of_any_kind_without_a_value_is_refused(
    tmp_path: Path, without_libreoffice: None, formula: object
) -> None:
    with pytest.raises(UserError, match="row 2: 'answer' holds a formula without a value"):
        load(["a", "q?", formula], ["b", "q2?", "x"], folder=tmp_path)


@pytest.mark.parametrize(
    ("column", "settings"),
    [
        ("id", {}),
        ("body", {"inputs": ["question", "body"]}),
        ("kind", {"tags": ["kind"]}),
    ],
)
def test_it_is_refused_in_every_column_that_is_read(
    tmp_path: Path, without_libreoffice: None, column: str, settings: dict[str, Any]
) -> None:
    header = list(dict.fromkeys([*HEADER, column]))
    row = ["=6*7" if name == column else f"{name}?" for name in header]
    with pytest.raises(UserError, match=rf"row 2: '{column}' holds a formula without a value"):
        ExcelDataset(str(write_sheet(tmp_path / "q.xlsx", header, row)), **settings).load("all")
    ignored = write_sheet(tmp_path / "q.xlsx", [*HEADER, "note"], ["a", "q?", "42", "=6*7"])
    assert ExcelDataset(str(ignored)).load("all").samples[0].target == "42"


def test_a_header_that_is_a_formula_without_a_value_is_a_sentence(tmp_path: Path, without_libreoffice: None) -> None:
    file = write_sheet(tmp_path / "q.xlsx", ["id", "question", '="ans"&"wer"'], ["a", "q?", "42"])
    with pytest.raises(UserError, match="row 1: a column's name holds a formula without a value: save the workbook"):
        ExcelDataset(str(file)).load("all")


@needs("libreoffice")
@pytest.mark.slow
def test_libreoffice_computes_formulas_without_a_value(tmp_path: Path) -> None:
    file = write_sheet(tmp_path / "q.xlsx", HEADER, ["a", "q?", "=6*7"], ["b", "r?", "=other!A1"], ["c", "s?", 48])
    split = ExcelDataset(str(file)).load("all")
    assert [sample.target for sample in split.samples] == ["42", "x", "48"]
    with pytest.raises(UserError, match="row 2: 'answer' holds an error of Excel"):
        load(["a", "q?", "=1/0"], folder=tmp_path)


def test_a_formula_with_its_value_is_that_value(tmp_path: Path) -> None:
    file = write_sheet(tmp_path / "q.xlsx", HEADER, ["a", "q?", "=6*7"])
    with zipfile.ZipFile(file) as old:
        members = {name: old.read(name) for name in old.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    members[sheet] = re.sub(rb"<f>6\*7</f><v ?/?>(</v>)?", b"<f>6*7</f><v>42</v>", members[sheet])
    for suffix in ("xlsx", "xlsm"):
        (tmp_path / f"made.{suffix}").write_bytes(zip_bytes(members))
        assert ExcelDataset(str(tmp_path / f"made.{suffix}")).load("all").samples[0].target == "42"


@pytest.mark.parametrize("error", ["#N/A", "#DIV/0!"])
def test_an_error_of_excel_is_refused_in_a_workbook_and_in_a_table_made_from_one(tmp_path: Path, error: str) -> None:
    (tmp_path / "q.csv").write_text(f"id,question,answer\na,q?,{error}\n")
    with pytest.raises(UserError, match="line 2: 'answer' holds an error of Excel"):
        CsvDataset(str(tmp_path / "q.csv")).load("all")
    with pytest.raises(UserError, match="row 2: 'answer' holds an error of Excel"):
        load(["a", "q?", error], folder=tmp_path)


def test_what_is_no_workbook_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "q.xlsx").write_text("id,question\n")
    with pytest.raises(UserError, match="cannot be read as Excel"):
        ExcelDataset(str(tmp_path / "q.xlsx")).load("all")
    (tmp_path / "q.csv").write_text("id,question\n")
    with pytest.raises(UserError, match="give data=csv"):
        ExcelDataset(str(tmp_path / "q.csv")).load("all")


def read_rows(rows: object, **settings: Any) -> Split:
    with name_object(rows, "samples") as target:
        return InMemoryDataset(target, **settings).load("all")


def test_a_data_frame_arrives_without_the_types_of_pandas() -> None:
    frame = pandas.DataFrame(
        {
            "id": [1, None, 3],  # floats, since one is missing
            "question": ["a?", "b?", "c?"],
            "answer": [numpy.float64(7.0), math.nan, numpy.int64(2)],
            "level": [pandas.Timestamp("2024-01-31"), pandas.NaT, pandas.NA],
            "body": [numpy.array([1, 2]), {"x": 1}, "007"],
        }
    ).astype({"level": object})
    samples = read_rows(frame.dropna(subset="id").to_dict("records"), inputs=["body"]).samples
    assert [(each.id, each.target, each.level) for each in samples] == [("1", "7", "2024-01-31"), ("3", "2", None)]
    assert [each.question for each in samples] == ["[1, 2]", "007"]


def test_a_bad_sample_is_named_and_booleans_are_labels() -> None:
    assert read_rows([{"question": "a?", "answer": True}]).samples[0].target == "True"
    with pytest.raises(UserError, match="sample 2: 'question' is missing"):
        read_rows([{"question": "a?", "answer": "1"}, {"question": "", "answer": "1"}])
    with pytest.raises(UserError, match="sample 1: the row is a str"):
        read_rows(["a?"])
