"""Which rows become examples, and what is said about those that do not."""

from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.rows import GAIA_COLUMNS, Attachments, FoundColumns, Row, read_rows
from mas.runtime.errors import UserError

GOOD = {"task_id": "1", "Question": "How many?", "Level": 1, "Final answer": "4", "file_name": ""}


def read_one(folder: Path, **columns: Any) -> Sample:
    (sample,) = read_rows([Row("m.jsonl, line 1", GOOD | columns)], Attachments(folder)).samples
    return sample


def refusal(folder: Path, *contents: object) -> str:
    rows = [Row(f"m.jsonl, line {number}", content) for number, content in enumerate(contents, start=1)]
    with pytest.raises(UserError) as error:
        read_rows(rows, Attachments(folder))
    return str(error.value)


def without(column: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != column}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (without("Question"), "'Question' is missing or empty"),
        (GOOD | {"Question": "  "}, "'Question' is missing or empty"),
        (GOOD | {"Question": None}, "'Question' is missing or empty"),
        (GOOD | {"Question": ["a"]}, "'Question' must be text, and is a list"),
        (GOOD | {"Question": "half \ud83d"}, "'Question' holds half a character"),
        (without("task_id"), "'task_id' is missing or empty"),
        (GOOD | {"task_id": ""}, "'task_id' is missing or empty"),
        (GOOD | {"task_id": True}, "'task_id' must be text or a number, and is a bool"),
        (
            GOOD | {"Final answer": ["a"]},
            "'Final answer' must be text or a number (a list or an object: give it as JSON text), and is a list",
        ),
        (GOOD | {"Level": True}, "'Level' must be text or a number, and is a bool"),
        (
            GOOD | {"Level": {}},
            "'Level' must be text or a number (a list or an object: give it as JSON text), and is a dict",
        ),
        (GOOD | {"file_name": 3}, "'file_name' must be text, and is an int"),
        (GOOD | {"file_name": "gone.csv"}, "the attachment 'gone.csv' is not in "),
        (GOOD | {"file_name": "sub/a.csv"}, "the attachment 'sub/a.csv' is not the bare name"),
        (GOOD | {"file_name": "sub\\a.csv"}, "is not the bare name"),
        (GOOD | {"file_name": "../a.csv"}, "the attachment '../a.csv' is not the bare name"),
        (GOOD | {"file_name": ".."}, "the attachment '..' is not the bare name"),
        (GOOD | {"file_name": "/etc/passwd"}, "the attachment '/etc/passwd' is not the bare name"),
        (GOOD | {"file_name": "C:a.csv"}, "the attachment 'C:a.csv' is not the bare name"),
        (GOOD | {"file_name": "a\0.csv"}, "is not the bare name"),
        (GOOD | {"file_name": "n" * 300}, "cannot be opened (OSError)"),
        (GOOD | {"file_name": "sub"}, "the attachment 'sub' is not in "),
        (GOOD | {"file_name": "metadata.level1.parquet"}, "which holds the gold answers"),
        (["a"], "the row is a list, not an object"),
        (None, "the row is None, not an object"),
    ],
)
def test_a_bad_row_is_refused_in_one_sentence_with_its_place_and_the_way_out(
    tmp_path: Path, row: object, problem: str
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").touch()
    (tmp_path / "metadata.level1.parquet").touch()
    message = refusal(tmp_path, GOOD | {"task_id": "other"}, row)
    assert message.startswith("m.jsonl, line 2: ")
    assert problem in message
    assert message.endswith("or leave bad rows out with data.on_bad_row=skip.")
    assert "\n" not in message


def test_a_second_row_with_the_same_id_is_bad_and_names_the_first(tmp_path: Path) -> None:
    message = refusal(tmp_path, GOOD | {"task_id": 7}, GOOD | {"task_id": " 7 "})
    assert message.startswith("m.jsonl, line 2: the id '7' is already that of m.jsonl, line 1;")


def test_a_link_out_of_the_folder_is_bad(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "note.txt").symlink_to(tmp_path / "secret.txt")
    assert "'note.txt' is a link that leads out of the dataset's folder" in refusal(
        folder, GOOD | {"file_name": "note.txt"}
    )


def test_a_link_within_the_folder_keeps_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "blob").write_text("x")
    (tmp_path / "note.txt").symlink_to("blob")
    assert read_one(tmp_path, file_name="note.txt").file == tmp_path / "note.txt"


@pytest.mark.parametrize("gold", [None, "", " ", "?", float("nan")])
def test_a_row_without_gold_is_unscored(tmp_path: Path, gold: object) -> None:
    assert read_one(tmp_path, **{"Final answer": gold}).target is None


def test_an_example_holds_nothing_of_other_columns_but_the_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "a.XLSX").touch()
    sample = read_one(tmp_path, file_name="a.XLSX", **{"Annotator Metadata": {"Steps": "solution"}})
    assert sample.tags == {"kind": "xlsx"}
    assert "solution" not in repr(sample)
    assert read_one(tmp_path).tags == {"kind": "none"}


def test_skipped_rows_are_returned_with_their_places(tmp_path: Path) -> None:
    rows = [Row("m, line 1", GOOD), Row("m, line 2", problem="not JSON"), Row("m, line 3", GOOD | {"task_id": 3})]
    split = read_rows(rows, Attachments(tmp_path), on_bad_row="skip")
    assert [sample.id for sample in split.samples] == ["1", "3"]
    assert split.bad_rows == ("m, line 2: not JSON",)


def test_no_rows_left_is_refused_even_when_bad_rows_are_skipped(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="all 1 are bad, the first one being m, line 1: not JSON"):
        read_rows([Row("m, line 1", problem="not JSON")], Attachments(tmp_path), on_bad_row="skip")
    with pytest.raises(UserError, match="has no rows: it is empty"):
        read_rows([], Attachments(tmp_path))


IDS_MADE = FoundColumns({**GAIA_COLUMNS, "id": None}, ids_from_questions=True)


def made_ids(folder: Path, *rows: tuple[str, str]) -> list[str]:
    contents = [Row(f"row {question}", {"Question": question, "file_name": file}) for question, file in rows]
    return [each.id for each in read_rows(contents, Attachments(folder), columns=IDS_MADE).samples]


def test_ids_made_from_questions_stay_when_rows_are_moved_or_added(tmp_path: Path) -> None:
    a, b = made_ids(tmp_path, ("a?", ""), ("b?", ""))
    assert made_ids(tmp_path, ("new?", ""), ("b?", ""), (" a?\n", ""))[1:] == [b, a]
    assert a == "qea81ca81066c"  # kept runs have it: another one would part them from their questions


def test_the_attachment_makes_another_question_of_the_same_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").touch()
    assert len(set(made_ids(tmp_path, ("a?", ""), ("a?", "a.csv"), ("a?", "b.csv")))) == 3


def test_without_ids_the_same_question_twice_is_refused_and_names_the_first(tmp_path: Path) -> None:
    said = r"^row a  \?: it asks the same as row a \?, and ids are made from the questions \(data\.columns\.id=null "
    with pytest.raises(UserError, match=said):
        made_ids(tmp_path, ("a ?", ""), ("a  ?", ""))
