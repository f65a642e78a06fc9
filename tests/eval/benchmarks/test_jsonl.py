"""Own questions, from folders, files and splits."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from eval.benchmarks.jsonl import JsonlDataset, read_metadata
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


def test_the_metadata_file_can_be_named_itself(tmp_path: Path) -> None:
    write(tmp_path, row("1")).rename(tmp_path / "mine.jsonl")
    assert ids(tmp_path / "mine.jsonl") == ["1"]


def test_the_metadata_cannot_be_its_own_attachment(tmp_path: Path) -> None:
    write(tmp_path, row("1", file_name="mine.jsonl")).rename(tmp_path / "mine.jsonl")
    with pytest.raises(UserError, match="holds the gold answers"):
        ids(tmp_path / "mine.jsonl")


def test_a_relative_path_is_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "mine", row("1"))
    monkeypatch.chdir(tmp_path)
    assert ids(Path("mine")) == ["1"]


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


def test_null_numbers_the_lines(tmp_path: Path) -> None:
    write(tmp_path, row("x"), row("y"))
    samples = JsonlDataset(str(tmp_path), columns={"id": None}).load("all").samples
    assert [sample.id for sample in samples] == ["1", "2"]


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


def test_a_missing_path_says_what_there_is_instead(tmp_path: Path) -> None:
    write(tmp_path / "mine", row("1"))
    with pytest.raises(UserError, match=r"data\.path=.*/mien/deep does not exist .* there is mine\.$"):
        JsonlDataset(str(tmp_path / "mien" / "deep")).check()


def test_a_folder_without_metadata_lists_what_it_holds(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.csv").touch()
    with pytest.raises(UserError, match=r"holds no metadata\.jsonl .*00\.csv, .* and 2 more\.$"):
        JsonlDataset(str(tmp_path)).check()


def test_two_kinds_of_metadata_are_refused_rather_than_chosen_from(tmp_path: Path) -> None:
    write(tmp_path, row("1"))
    (tmp_path / "metadata.parquet").touch()
    with pytest.raises(UserError, match=r"holds both metadata\.jsonl and metadata\.parquet: remove one"):
        JsonlDataset(str(tmp_path)).check()


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").touch()
    with pytest.raises(UserError, match=r"rows\.csv must end in \.jsonl or \.parquet"):
        JsonlDataset(str(tmp_path / "rows.csv")).check()


def test_wrong_settings_are_found_by_the_check(tmp_path: Path) -> None:
    write(tmp_path, row("1"))
    with pytest.raises(UserError, match="use one of refuse, skip"):
        JsonlDataset(str(tmp_path), on_bad_row="ignore").check()
    with pytest.raises(UserError, match="no key 'text'"):
        JsonlDataset(str(tmp_path), columns={"text": "q"}).check()


@pytest.mark.parametrize(
    ("n_files", "listed"),
    [
        (0, "nothing"),
        (1, "f00.txt"),
        (10, ", ".join(f"f0{n}.txt" for n in range(10))),
        (11, ", ".join(f"f0{n}.txt" for n in range(10)) + " and 1 more"),
        (13, ", ".join(f"f0{n}.txt" for n in range(10)) + " and 3 more"),
    ],
)
def test_up_to_ten_names_tell_what_there_is(tmp_path: Path, n_files: int, listed: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(n_files):
        (folder / f"f{number:02}.txt").touch()
    with pytest.raises(UserError) as refused:
        JsonlDataset(str(folder)).check()
    assert str(refused.value) == (
        f"data.path={folder} holds no metadata.jsonl or metadata.parquet, nor has a sub-folder with one: add it, or "
        f"give another folder; there is {listed}."
    )
    with pytest.raises(UserError) as refused:
        JsonlDataset(str(folder / "deep" / "er")).check()
    assert str(refused.value) == (
        f"data.path={folder}/deep/er does not exist under {Path.cwd()}: give a folder with metadata.jsonl or "
        f"metadata.parquet; in {folder} there is {listed}."
    )


def test_files_of_a_kind_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    for name, hint in (("a.csv", "; for this file give data=csv"), ("a.txt", "")):
        (tmp_path / name).touch()
        with pytest.raises(UserError) as refused:
            JsonlDataset(str(tmp_path / name)).check()
        assert str(refused.value) == (
            f"data.path={tmp_path}/{name} must end in .jsonl or .parquet, or be a folder with metadata.jsonl or "
            f"metadata.parquet{hint}."
        )
    for name in ("metadata.jsonl", "metadata.parquet"):
        (tmp_path / name).touch()
    with pytest.raises(UserError) as refused:
        JsonlDataset(str(tmp_path)).check()
    assert str(refused.value) == (
        f"{tmp_path} holds both metadata.jsonl and metadata.parquet: remove one, or give data.path={tmp_path}/"
        "metadata.jsonl."
    )


def test_a_folder_and_its_sub_folders_are_splits_together(tmp_path: Path) -> None:
    write(tmp_path, row("0"))
    write(tmp_path / "b", row("2"))
    write(tmp_path / "a", row("1"))
    (tmp_path / "c").mkdir()
    assert [ids(tmp_path, split) for split in ("all", "a", "b")] == [["0"], ["1"], ["2"]]
    with pytest.raises(UserError) as refused:
        ids(tmp_path, "c")
    assert str(refused.value) == (f"{tmp_path} has no split 'c': give one that it has with split=…: all, a, b.")


def test_places_are_numbers_of_lines_and_rows(tmp_path: Path) -> None:
    metadata = tmp_path / "metadata.jsonl"
    metadata.write_bytes(b'\xef\xbb\xbf{"id": 1}\n \n\n[1]\n{\n\xff\n')
    rows = list(read_metadata(metadata))
    assert [each.place for each in rows] == [f"{metadata}, line {number}" for number in (1, 4, 5, 6)]
    assert [each.content for each in rows] == [{"id": 1}, [1], None, None]
    assert [(each.problem or "")[:20] for each in rows] == ["", "", "the line is not JSON", "the line is not UTF-"]
    pq.write_table(pa.Table.from_pylist([{"id": 1}, {"id": 2}]), tmp_path / "m.parquet")
    assert [(each.place, each.content) for each in read_metadata(tmp_path / "m.parquet")] == [
        (f"{tmp_path}/m.parquet, row {number}", {"id": number}) for number in (1, 2)
    ]
