"""Questions in one CSV or Parquet file, with columns of any names."""

import codecs
import csv
import re
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import numpy
import openpyxl
import pandas
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from eval.benchmarks.dataset import Sample, Split
from eval.benchmarks.table import (
    MAX_FIELD_CHARS,
    CsvDataset,
    ExcelDataset,
    InMemoryDataset,
    ParquetDataset,
    show_date,
)
from mas.agents.in_memory import name_object
from mas.runtime.errors import UserError

MAPPED: dict[str, str | None] = {
    "id": "nr", "question": "prompt", "answer": "label", "level": "grade", "file": "doc"
}  # fmt: skip
PLAIN: dict[str, str | None] = {"question": "prompt", "answer": "label"}


def csv_file(folder: Path, text: str | bytes, name: str = "q.csv") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def read(file: Path, columns: dict[str, str | None] = PLAIN, **settings: Any) -> tuple[Sample, ...]:
    return CsvDataset(str(file), columns=columns, **settings).load("all").samples


def refusal(file: Path, columns: dict[str, str | None] = PLAIN, **settings: Any) -> str:
    with pytest.raises(UserError) as raised:
        read(file, columns, **settings)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_columns_of_any_names_become_an_example(tmp_path: Path) -> None:
    (tmp_path / "sales.txt").touch()
    file = csv_file(tmp_path, "nr,prompt,label,grade,doc,solution\n7,What?,soap,2,sales.txt,look at row 3\n")
    (sample,) = read(file, MAPPED)
    assert sample == Sample("7", "What?", tmp_path / "sales.txt", "soap", "2", {"kind": "txt"})
    assert "row 3" not in repr(sample)


def test_gaias_names_need_no_mapping(tmp_path: Path) -> None:
    (sample,) = CsvDataset(str(csv_file(tmp_path, "Question,Final answer\nWhat?,soap\n"))).load("all").samples
    assert (sample.id, sample.question, sample.target, sample.file, sample.level) == (
        "1", "What?", "soap", None, None
    )  # fmt: skip


@pytest.mark.parametrize(
    "text", ["007", "1e5", "1.0", "1.50", "NA", "None", "null", "nan", "TRUE", "2024-01-02", "1,5"]
)
def test_cells_stay_the_text_that_they_are(tmp_path: Path, text: str) -> None:
    (sample,) = read(
        csv_file(tmp_path, f'nr,prompt,label,grade,doc\n"{text}",{text[:1]}?,"{text}","{text}",\n'), MAPPED
    )
    assert (sample.id, sample.target, sample.level) == (text, text, text)


def test_an_empty_cell_is_missing(tmp_path: Path) -> None:
    first, second = read(csv_file(tmp_path, 'nr,prompt,label,grade,doc\na,Who?,,,\nb,When?," ",,\n'), MAPPED)
    for sample in (first, second):
        assert (sample.target, sample.level, sample.file) == (None, None, None)
    assert "line 2: 'prompt' is missing or empty" in refusal(csv_file(tmp_path, "prompt,label\n,x\n"))


def test_quoted_cells_may_hold_delimiters_quotes_and_lines(tmp_path: Path) -> None:
    file = csv_file(tmp_path, 'prompt,label\r\n"one, ""two""\nthree",x\r\n\r\nlast,y\r\n')
    assert [sample.question for sample in read(file)] == ['one, "two"\nthree', "last"]


def test_a_bad_row_is_named_by_the_line_on_which_it_begins(tmp_path: Path) -> None:
    file = csv_file(tmp_path, 'prompt,label\n"two\nlines",x\n\nonly one cell\n')
    assert ", line 5: the row has 1 cells, the header 2" in refusal(file)
    split = CsvDataset(str(file), columns=PLAIN, on_bad_row="skip").load("all")
    assert (len(split.samples), len(split.bad_rows)) == (1, 1)


def test_an_unquoted_comma_is_told_and_not_cut_off(tmp_path: Path) -> None:
    assert "has 3 cells, the header 2 (is a comma not in quotes?)" in refusal(
        csv_file(tmp_path, "prompt,label\nWho, then?,x\n")
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('prompt,label\n"never closed,x\na,b\n', "line 2 cannot be read as CSV"),
        ('prompt,label\n"a"b,x\n', "cannot be read as CSV"),
        ("prompt,prompt,label\na,b,c\n", "two columns named 'prompt'"),
        (b"prompt,label\n\xff,x\n", "is not UTF-8"),
        (codecs.BOM_UTF16_LE + "prompt,label\n".encode("utf-16-le"), "is not UTF-8"),
        (
            "",
            "no column 'prompt' and no column 'label': name what it has with data.columns.question=… and",
        ),
        ("prompt,label\n", "the metadata is empty"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, text: str | bytes, words: str) -> None:
    assert words in refusal(csv_file(tmp_path, text))


@pytest.mark.parametrize("delimiter", ["tab", "\\t", "\t", "semicolon", ";", "|"])
def test_another_delimiter_can_be_given(tmp_path: Path, delimiter: str) -> None:
    written = {"semicolon": ";", "tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    (sample,) = read(csv_file(tmp_path, f"prompt{written}label\na, b{written}x\n"), delimiter=delimiter)
    assert (sample.question, sample.target) == ("a, b", "x")


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_what_is_no_delimiter_is_refused(tmp_path: Path, delimiter: str) -> None:
    assert "is not one character" in refusal(csv_file(tmp_path, "prompt,label\na,b\n"), delimiter=delimiter)


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert read(csv_file(tmp_path, codecs.BOM_UTF8 + b"prompt,label\nWho?,x\n"))[0].question == "Who?"


def test_a_very_long_cell_is_read(tmp_path: Path) -> None:
    assert len(read(csv_file(tmp_path, f"prompt,label\n{'a' * 200_000},x\n"))[0].question) == 200_000


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        ({"question": "text", "answer": "label"}, "question"),
        ({"question": "prompt", "answer": "gold"}, "answer"),
        ({**PLAIN, "id": "nr"}, "id"),
        ({**PLAIN, "level": "grade"}, "level"),
        ({**PLAIN, "file": "doc"}, "file"),
    ],
)
def test_a_column_that_is_not_there_lists_those_that_are(
    tmp_path: Path, columns: dict[str, str | None], missing: str
) -> None:
    message = refusal(csv_file(tmp_path, "prompt,label\na,b\n"), columns)
    assert f"q.csv has no column {columns[missing]!r}: name what it has with data.columns.{missing}=…" in message
    assert message.endswith("; its columns are: prompt, label.")


def test_usual_names_need_no_mapping_and_ids_come_from_the_questions(tmp_path: Path) -> None:
    file = csv_file(tmp_path, "Input,Target\nWho?,Ann\nWhen?,7\n")
    first, second = read(file, {})
    assert (first.question, first.target, second.target) == ("Who?", "Ann", "7")
    csv_file(tmp_path, "Input,Target\nWhen?,7\nWhere?,Rome\nWho?,Ann\n")
    assert [sample.id for sample in read(file, {})][::2] == [second.id, first.id]


def test_null_means_that_there_is_no_such_column(tmp_path: Path) -> None:
    columns = {"question": "Question", "id": None, "answer": None, "level": None, "file": None}
    file = csv_file(
        tmp_path, "task_id,Question,Final answer,Level,file_name\nx,Who?,gold,1,none.txt\ny,When?,gold,1,\n"
    )
    assert [(each.id, each.target, each.level, each.file) for each in read(file, columns)] == [
        ("1", None, None, None), ("2", None, None, None)
    ]  # fmt: skip
    assert "data.columns.question is empty" in refusal(file, {"question": None})


@pytest.mark.parametrize("key", ["question", "id", "level", "file"])
def test_the_gold_column_cannot_be_shown_as_anything_else(tmp_path: Path, key: str) -> None:
    columns = {**MAPPED, key: "label"}
    message = refusal(csv_file(tmp_path, "nr,prompt,label,grade,doc\n1,Who?,x,1,\n"), columns)
    assert f"data.columns.{key} and data.columns.answer are both 'label', which would show the gold" in message


def test_attachments_come_from_the_folder_that_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").touch()
    file = csv_file(tmp_path, "prompt,label,doc\nWho?,x,a.txt\n")
    columns = {**PLAIN, "file": "doc"}
    assert "'a.txt' is not in" in refusal(file, columns)
    assert read(file, columns, files=str(folder))[0].file == folder / "a.txt"
    assert "data.files=nowhere is not a folder" in refusal(file, columns, files="nowhere")


def test_the_file_with_the_gold_answers_is_no_attachment(tmp_path: Path) -> None:
    file = csv_file(tmp_path, "prompt,label,doc\nWho?,x,q.csv\n")
    assert "holds the gold answers" in refusal(file, {**PLAIN, "file": "doc"})
    (tmp_path / "other.txt").symlink_to(file)
    csv_file(tmp_path, "prompt,label,doc\nWho?,x,other.txt\n")
    assert "holds the gold answers" in refusal(file, {**PLAIN, "file": "doc"})


def test_a_path_that_is_no_file_is_found_by_the_check(tmp_path: Path) -> None:
    for benchmark in (CsvDataset, ParquetDataset):
        with pytest.raises(UserError, match="does not exist under"):
            benchmark(str(tmp_path / "gone")).check()
        with pytest.raises(UserError, match="is a folder: give the file"):
            benchmark(str(tmp_path)).check()


def test_the_file_is_one_split(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no split 'test': it is one file"):
        CsvDataset(str(csv_file(tmp_path, "prompt,label\na,b\n")), columns=PLAIN).load("test")


def parquet(folder: Path, *rows: dict[str, Any]) -> ParquetDataset:
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "q.parquet")
    return ParquetDataset(str(folder / "q.parquet"), columns=MAPPED)


def test_parquet_is_read_with_its_numbers_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    row = {"nr": 7, "prompt": "What?", "label": 12.0, "grade": 2, "doc": "a.txt", "steps": {"solution": "see"}}
    (sample,) = parquet(tmp_path, row).load("all").samples
    assert sample == Sample("7", "What?", tmp_path / "a.txt", "12", "2", {"kind": "txt"})


def test_parquets_mistakes_are_told_like_csvs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no column 'label', .* data\.columns\.answer=.*: nr, prompt\.$"):
        parquet(tmp_path, {"nr": 1, "prompt": "a"}).load("all")
    row = {"nr": "1", "prompt": "a", "label": ["x"], "grade": "1", "doc": ""}
    with pytest.raises(
        UserError, match=r"q\.parquet, row 1: 'label' must be text or a number \(a list .*\), and is a list; correct"
    ):
        parquet(tmp_path, row).load("all")
    (tmp_path / "q.parquet").write_bytes(b"no table")
    with pytest.raises(UserError, match=r"cannot be read as Parquet \(ArrowInvalid\)"):
        ParquetDataset(str(tmp_path / "q.parquet")).load("all")


@pytest.mark.parametrize(("delimiter", "word"), [(";", "semicolon"), ("\t", "tab"), ("|", "'|'")])
def test_a_file_with_another_delimiter_suggests_it(tmp_path: Path, delimiter: str, word: str) -> None:
    (tmp_path / "x.csv").write_text(f"Question{delimiter}Final answer\nHow many?{delimiter}4\n")
    with pytest.raises(UserError, match=re.escape(f"data.delimiter={word}")):
        CsvDataset(str(tmp_path / "x.csv")).load("all")
    assert CsvDataset(str(tmp_path / "x.csv"), delimiter=delimiter).load("all").samples[0].target == "4"


@pytest.mark.parametrize(
    ("text", "delimiter", "said"),
    [
        ("prompt,b,label,label,b\n", ",", "two columns named 'b': rename one."),
        ("a;b\n", ",", "has one column, 'a;b': give data.delimiter=semicolon if that separates its cells."),
        ("a\tb|c\n", ",", "has one column, 'a\\tb|c': give data.delimiter=tab if that separates its cells."),
        ("a|b\n", ",", "has one column, 'a|b': give data.delimiter='|' if that separates its cells."),
        ("prompt;,label\na,b,c\n", ",", "has no column 'prompt': name what it has with"),
    ],
)
def test_a_header_that_cannot_be_meant_is_told(tmp_path: Path, text: str, delimiter: str, said: str) -> None:
    file = csv_file(tmp_path, text)
    assert refusal(file, delimiter=delimiter).startswith(
        f"{file} {said}" if "two" not in said else f"{file} has {said}"
    )


@pytest.mark.parametrize("delimiter", [" ", "\r", "ab", "Tab"])
def test_a_delimiter_that_no_file_has_is_refused_by_the_check(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(UserError) as refused:
        CsvDataset(str(csv_file(tmp_path, "a,b\n")), delimiter=delimiter).check()
    assert str(refused.value) == (f"data.delimiter={delimiter!r} is not one character; give one, or tab or semicolon.")


def test_the_limit_of_a_cell_is_that_of_the_process_and_is_only_ever_raised(tmp_path: Path) -> None:
    before = csv.field_size_limit(1000)
    try:
        read(csv_file(tmp_path, f"prompt,label\n{'a' * 2000},x\n"))
        assert csv.field_size_limit(MAX_FIELD_CHARS + 1) == MAX_FIELD_CHARS == 10_000_000
        read(csv_file(tmp_path, "prompt,label\na,x\n"))
        assert csv.field_size_limit() == MAX_FIELD_CHARS + 1
    finally:
        csv.field_size_limit(before)


def test_every_row_has_the_number_of_its_first_line(tmp_path: Path) -> None:
    rows = 'prompt,label\r\n\r\n"a\r\nb",x,y\r\n,z\r\n\r\n\r\nlast\r\n'
    file = csv_file(tmp_path, rows)
    with pytest.raises(UserError) as refused:
        read(file)
    assert str(refused.value).splitlines()[1:] == [
        f"  {file}, line 3: the row has 3 cells, the header 2 (is a comma not in quotes?)",
        f"  {file}, line 5: 'prompt' is missing or empty",
        f"  {file}, line 8: the row has 1 cells, the header 2 (is a comma not in quotes?)",
    ]


def test_a_file_that_is_a_folder_or_missing_is_told_with_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for path, found in (("folder", "is a folder"), ("gone", f"does not exist under {tmp_path}")):
        with pytest.raises(UserError) as refused:
            CsvDataset(path).check()
        assert str(refused.value) == f"data.path={path} {found}: give the file that holds the questions."


@pytest.mark.parametrize("wrong", [{"on_bad_row": "drop"}, {"tags": ["a", "a"]}, {"files": "nowhere"}])
def test_wrong_settings_of_a_table_are_found_by_the_check(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        CsvDataset(str(csv_file(tmp_path, "prompt,label\na,b\n")), **wrong).check()
    with name_object([], "rows") as target, pytest.raises(UserError):
        InMemoryDataset(target, **wrong).check()


def excel(folder: Path, *rows: list[Any], formats: dict[str, str] | None = None, **settings: Any) -> Split:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(row)
    for cell, number_format in (formats or {}).items():
        book.active[cell].number_format = number_format
    book.save(folder / "q.XLSX")
    return ExcelDataset(str(folder / "q.XLSX"), **settings).load("all")


def test_columns_of_a_sheet_without_a_name_are_left_out(tmp_path: Path) -> None:
    rows = (["id", None, "question", "", "answer"], ["1", "x", "a?", None, "7"], ["2", None, None, None, "8"])
    with pytest.raises(UserError, match=r"q\.XLSX, row 3: 'question' is missing or empty;"):
        excel(tmp_path, *rows)
    assert [each.target for each in excel(tmp_path, *rows, on_bad_row="skip").samples] == ["7"]
    with pytest.raises(UserError, match=r"q\.XLSX has two columns named 'b': rename one\.$"):
        excel(tmp_path, ["question", "b", "z", "b", "z", None, None, "answer"])


def test_an_error_in_a_column_that_nobody_reads_is_none(tmp_path: Path) -> None:
    rows = (["id", "question", "answer", "note"], ["1", "a?", "7", float("nan")])
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(row)
    book.active["D2"].value, book.active["D2"].data_type = "#N/A", "e"
    book.save(tmp_path / "q.xlsx")
    assert ExcelDataset(str(tmp_path / "q.xlsx")).load("all").samples[0].target == "7"


def test_zeros_of_a_format_are_kept_in_their_own_cell_alone(tmp_path: Path) -> None:
    split = excel(
        tmp_path,
        ["id", "question", "answer", "level"],
        [7, "a?", 7, 12345],
        [12, "b?", 7, -7],
        formats={"A2": "0000", "C3": "00", "D2": "000", "D3": "0.0"},
    )
    assert [(each.id, each.target, each.level) for each in split.samples] == [
        ("0007", "7", "12345"),
        ("12", "07", "-7"),
    ]


def test_the_first_sheet_is_read_and_any_other_end_of_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        ExcelDataset(str(csv_file(tmp_path, "a,b\n"))).check()
    assert str(refused.value) == (
        f"data.path={tmp_path}/q.csv must end in .xlsx, .xlsm, .xls: save it as .xlsx, or give data=csv."
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2024, 1, 31), "2024-01-31"),
        (datetime(2024, 1, 31, 0, 0, 1), "2024-01-31 00:00:01"),
        (datetime(2024, 1, 31, tzinfo=UTC), "2024-01-31 00:00:00+00:00"),
        (date(2024, 1, 31), "2024-01-31"),
        (time(9, 5), "09:05:00"),
        ("2024-01-31", None),
        (7, None),
    ],
)
def test_dates_are_shown_in_iso_form_and_without_a_time_that_is_midnight(value: object, shown: str | None) -> None:
    assert show_date(value) == shown


def in_memory(rows: object, **settings: Any) -> Split:
    with name_object(rows, "rows") as target:
        return InMemoryDataset(target, **settings).load("all")


@pytest.mark.parametrize(
    ("value", "target"),
    [
        *((True, "True"), (numpy.bool_(False), "False"), (numpy.int64(7), "7"), (numpy.array(3.5), "3.5")),
        *((pandas.NA, None), (pandas.NaT, None), (time(9), "09:00:00"), (pandas.Timestamp("2024-01-31"), "2024-01-31")),
    ],
)
def test_values_in_memory_are_plain(value: object, target: str | None) -> None:
    assert in_memory([{"question": "a?", "answer": value}]).samples[0].target == target


def test_arrays_in_memory_are_lists() -> None:
    rows = [{"x": numpy.array([[1, 2]]), 7: pandas.Series(["a"]).to_numpy(), "answer": "7"}]
    assert dict(in_memory(rows, inputs=["x", "7"]).samples[0].inputs) == {"x": "[[1, 2]]", "7": '["a"]'}


def test_samples_in_memory_are_numbered_and_have_the_columns_of_all(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    rows = [{"question": "a?", "answer": "1"}, {"question": "b?", "answer": "2", "file": "a.txt", "level": 3}]
    first, second = in_memory(rows, files=str(tmp_path)).samples
    assert (first.file, second.file, second.level) == (None, tmp_path / "a.txt", "3")
    with pytest.raises(UserError, match=r"^sample 2: the attachment 'a\.txt' is not in "):
        in_memory(rows)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "No rows are left in .: the metadata is empty; correct the data."),
        ([7, "x"], "2 rows are bad; correct them, or leave them out with data.on_bad_row=skip:"),
        ({"a": 1}, "is a dict; expected a list of dictionaries."),
        ([{"a": 1}], "the list of samples has no column for the question (Question, input, prompt, problem) and no"),
    ],
)
def test_samples_in_memory_that_cannot_be_read_are_refused(rows: object, said: str) -> None:
    with pytest.raises(UserError) as refused:
        in_memory(rows)
    assert said in str(refused.value)


def test_samples_in_memory_are_one_split() -> None:
    with name_object([{"question": "a?", "answer": "1"}], "rows") as target:
        with pytest.raises(UserError) as refused:
            InMemoryDataset(target).load("test")
        assert str(refused.value) == "samples given in Python have no split 'test': leave split out."
    with pytest.raises(UserError, match="is over"):
        InMemoryDataset(target).check()
