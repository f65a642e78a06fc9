"""Questions in one CSV file, with columns of any names."""

import codecs
import re
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.files import CsvDataset
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


@pytest.mark.parametrize("text", ["007", "1e5", "1.50", "NA", "None", "TRUE", "2024-01-02", "1,5"])
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
        ("", "has no rows: it is empty"),
        ("a,b\n1,2\n", "no column 'prompt' and no column 'label': name what it has with data.columns.question=… and"),
        ("prompt,label\n", "has no rows: it is empty"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, text: str | bytes, words: str) -> None:
    assert words in refusal(csv_file(tmp_path, text))


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        ({"question": "text", "answer": "label"}, "question"),
        ({**PLAIN, "id": "nr"}, "id"),
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


def test_the_table_itself_with_its_gold_answers_is_no_attachment(tmp_path: Path) -> None:
    file = csv_file(tmp_path, "prompt,label,doc\nWho?,x,q.csv\n")
    assert "'q.csv' is the dataset's metadata, which holds the gold" in refusal(file, {**PLAIN, "file": "doc"})


def test_a_path_that_is_no_file_is_found_by_the_check(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist under"):
        CsvDataset(str(tmp_path / "gone")).check()
    with pytest.raises(UserError, match="is a folder: give the file"):
        CsvDataset(str(tmp_path)).check()


@pytest.mark.parametrize(("delimiter", "word"), [(";", "semicolon"), ("\t", "tab"), ("|", "'|'")])
def test_a_file_with_another_delimiter_suggests_it(tmp_path: Path, delimiter: str, word: str) -> None:
    (tmp_path / "x.csv").write_text(f"Question{delimiter}Final answer\nHow many?{delimiter}4\n")
    with pytest.raises(UserError, match=re.escape(f"data.delimiter={word}")):
        CsvDataset(str(tmp_path / "x.csv")).load("all")
    assert CsvDataset(str(tmp_path / "x.csv"), delimiter=delimiter).load("all").samples[0].target == "4"
