"""Own questions, from folders, files and splits."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from eval.benchmarks.files import JsonlDataset
from mas.runtime.errors import UserError


def row(id: str, **columns: Any) -> dict[str, Any]:
    return {"task_id": id, "Question": f"Question {id}?", "Final answer": "x", "file_name": "", **columns}


def write(folder: Path, *rows: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    metadata = folder / "metadata.jsonl"
    metadata.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    return metadata


def ids(path: Path, split: str = "all") -> list[str]:
    return [sample.id for sample in JsonlDataset(str(path)).load(split).samples]


def test_a_folder_is_read_with_the_files_beside_the_metadata(tmp_path: Path) -> None:
    write(tmp_path, row("1", file_name="a.csv"), row("2"))
    (tmp_path / "a.csv").touch()
    first, second = JsonlDataset(str(tmp_path)).load("all").samples
    assert (first.file, second.file) == (tmp_path / "a.csv", None)


def test_each_sub_folder_with_metadata_is_a_split(tmp_path: Path) -> None:
    write(tmp_path / "train", row("1", file_name="a.csv"))
    (tmp_path / "train" / "a.csv").touch()
    write(tmp_path / "test", row("2"))
    (tmp_path / "notes").mkdir()
    assert (ids(tmp_path, "train"), ids(tmp_path, "test")) == (["1"], ["2"])


def test_all_means_the_only_split_and_never_several(tmp_path: Path) -> None:
    write(tmp_path / "test", row("2"))
    assert ids(tmp_path) == ["2"]
    write(tmp_path / "train", row("1"))
    with pytest.raises(UserError, match=r"has no split 'all': give one .* with split=…: test, train\."):
        ids(tmp_path)


@pytest.mark.parametrize("split", ["validation", "..", "../other", ""])
def test_an_unknown_split_lists_those_there_are(tmp_path: Path, split: str) -> None:
    write(tmp_path / "mine", row("1"))
    write(tmp_path / "other", row("1"))
    with pytest.raises(UserError, match=r"has no split '.*split=…: all\."):
        ids(tmp_path / "mine", split)


def test_a_question_and_an_answer_are_all_that_a_line_needs(tmp_path: Path) -> None:
    write(tmp_path, {"question": "Who?", "answer": "Ann"}, {"question": "When?"})
    split = JsonlDataset(str(tmp_path)).load("all")
    assert [(each.question, each.target) for each in split.samples] == [("Who?", "Ann"), ("When?", None)]
    assert len({each.id for each in split.samples}) == 2
    assert any("ids are made from the questions" in note for note in split.notes)


def test_lines_without_any_key_are_told_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "metadata.jsonl").write_text("no json\n")
    with pytest.raises(UserError, match=r"metadata\.jsonl, line 1: the line is not JSON"):
        ids(tmp_path)


def test_parquet_is_read_like_json_lines(tmp_path: Path) -> None:
    rows = [row("1", Level=1.0, file_name="a.csv"), row("2", Level=None, file_name=None)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "metadata.parquet")
    (tmp_path / "a.csv").touch()
    first, second = JsonlDataset(str(tmp_path)).load("all").samples
    assert (first.file, first.level) == (tmp_path / "a.csv", "1")
    assert (second.file, second.level) == (None, None)
    assert ids(tmp_path / "metadata.parquet") == ["1", "2"]


def test_a_bad_row_of_parquet_is_named_by_file_and_number(tmp_path: Path) -> None:
    rows = [{"task_id": 1, "Question": "a?"}, {"task_id": None, "Question": "b?"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "metadata.parquet")
    with pytest.raises(UserError, match=r"metadata\.parquet, row 2: 'task_id' is missing or empty; correct"):
        ids(tmp_path)


def test_a_broken_parquet_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "metadata.parquet").write_bytes(b"not parquet")
    with pytest.raises(UserError, match=r"metadata\.parquet cannot be read as Parquet \(ArrowInvalid\)"):
        ids(tmp_path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"task_id": "2", ', "the line is not JSON"),
        (b"[" * 100_000, "the line is not JSON"),
        (b'{"task_id": "\xff"}', "the line is not UTF-8"),
        (b'"text"', "the row is a str"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_line(tmp_path: Path, line: bytes, problem: str) -> None:
    metadata = write(tmp_path, row("1"))
    metadata.write_bytes(metadata.read_bytes() + b"\n" + line)
    with pytest.raises(UserError, match=r"metadata\.jsonl, line 3: .*data\.on_bad_row=skip\.$") as error:
        ids(tmp_path)
    assert problem in str(error.value)
    (bad,) = JsonlDataset(str(tmp_path), on_bad_row="skip").load("all").bad_rows
    assert "line 3" in bad and problem in bad


def test_byte_order_mark_carriage_returns_and_line_separators_are_harmless(tmp_path: Path) -> None:
    line = json.dumps(row("1", Question="one\u2028two"), ensure_ascii=False)
    (tmp_path / "metadata.jsonl").write_bytes(b"\xef\xbb\xbf" + f"{line}\r\n\r\n".encode())
    (sample,) = JsonlDataset(str(tmp_path)).load("all").samples
    assert sample.question == "one\u2028two"


def test_a_path_without_metadata_is_found_by_the_check(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.path=.*/gone does not exist under .*metadata\.jsonl"):
        JsonlDataset(str(tmp_path / "gone")).check()
    with pytest.raises(UserError, match=r"holds no metadata\.jsonl"):
        JsonlDataset(str(tmp_path)).check()
