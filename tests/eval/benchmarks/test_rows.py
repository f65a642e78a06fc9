"""Which rows become examples, and what is said about those that do not."""

import math
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.columns import GAIA_COLUMNS, FoundColumns, complete_columns
from eval.benchmarks.dataset import Sample
from eval.benchmarks.rows import (
    MAX_LISTED,
    Attachments,
    Row,
    describe_inputs,
    find_attachments_folder,
    is_bare_name,
    make_question_id,
    read_rows,
)
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
        (
            without("Question"),
            "'Question' is missing or empty (data.columns.question); the row has: task_id, Level, Final answer",
        ),
        (GOOD | {"Question": "  "}, "'Question' is missing or empty"),
        (GOOD | {"Question": None}, "'Question' is missing or empty"),
        (GOOD | {"Question": ["a"]}, "'Question' must be text, and is a list"),
        (GOOD | {"Question": "half \ud83d"}, "'Question' holds half a character"),
        (without("task_id"), "'task_id' is missing or empty (data.columns.id); the row has: Question, Level"),
        (GOOD | {"task_id": ""}, "'task_id' is missing or empty"),
        (GOOD | {"task_id": True}, "'task_id' must be text, and is a bool"),
        (GOOD | {"task_id": 1.5}, "'task_id' must be text, and is a float"),
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


def test_a_link_to_the_metadata_is_bad(tmp_path: Path) -> None:
    (tmp_path / "metadata.jsonl").touch()
    (tmp_path / "note.txt").symlink_to("metadata.jsonl")
    assert "which holds the gold answers" in refusal(tmp_path, GOOD | {"file_name": "note.txt"})


def test_links_in_a_circle_are_bad(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to("b.txt")
    (tmp_path / "b.txt").symlink_to("a.txt")
    assert "'a.txt'" in refusal(tmp_path, GOOD | {"file_name": "a.txt"})


def test_a_link_within_the_folder_keeps_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "blob").write_text("x")
    (tmp_path / "note.txt").symlink_to("blob")
    assert read_one(tmp_path, file_name="note.txt").file == tmp_path / "note.txt"


def test_a_file_is_absolute_also_when_the_folder_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").touch()
    monkeypatch.chdir(tmp_path)
    assert read_one(Path("data"), file_name="a.csv").file == tmp_path / "data" / "a.csv"


@pytest.mark.parametrize("gold", [None, "", " ", "?", float("nan")])
def test_a_row_without_gold_is_unscored(tmp_path: Path, gold: object) -> None:
    assert read_one(tmp_path, **{"Final answer": gold}).target is None


def test_a_row_without_the_answer_column_is_unscored(tmp_path: Path) -> None:
    (sample,) = read_rows([Row("x", without("Final answer"))], Attachments(tmp_path)).samples
    assert sample.target is None


@pytest.mark.parametrize(("gold", "target"), [(17, "17"), (17.0, "17"), (0.5, "0.5"), (0, "0"), (" a, b ", "a, b")])
def test_a_gold_answer_is_text(tmp_path: Path, gold: object, target: str) -> None:
    assert read_one(tmp_path, **{"Final answer": gold}).target == target


@pytest.mark.parametrize(("level", "text"), [(1, "1"), (2.0, "2"), ("3", "3"), ("", None), (None, None)])
def test_a_level_is_text(tmp_path: Path, level: object, text: str | None) -> None:
    assert read_one(tmp_path, Level=level).level == text


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
    with pytest.raises(UserError, match="the metadata is empty"):
        read_rows([], Attachments(tmp_path))


def test_an_unknown_way_with_bad_rows_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.on_bad_row=drop does not exist: use one of refuse, skip\."):
        read_rows([], Attachments(tmp_path), on_bad_row="drop")


def test_own_column_names_replace_gaias_one_by_one(tmp_path: Path) -> None:
    row = {"task_id": "1", "prompt": "How many?", "gold": 4}
    columns = FoundColumns(complete_columns({"question": "prompt", "answer": "gold"}))
    (sample,) = read_rows([Row("m", row)], Attachments(tmp_path), columns=columns).samples
    assert (sample.id, sample.question, sample.target, sample.level) == ("1", "How many?", "4", None)


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


def test_all_bad_rows_are_listed_up_to_twenty(tmp_path: Path) -> None:
    message = refusal(tmp_path, GOOD, *[without("Question")] * 25)
    first, *listed, last = message.split("\n")
    assert first == "25 rows are bad; correct them, or leave them out with data.on_bad_row=skip:"
    assert [line.split(":")[0].strip() for line in listed] == [f"m.jsonl, line {number}" for number in range(2, 22)]
    assert last.strip() == "and 5 more"


@pytest.mark.parametrize(("gold", "noted"), [("NaN", True), ("-nan", True), ("nanotube", False), ("4", False)])
def test_a_target_that_equals_nothing_is_noted(tmp_path: Path, gold: str, noted: bool) -> None:
    split = read_rows([Row("m.jsonl, line 1", GOOD | {"Final answer": gold})], Attachments(tmp_path))
    assert [note.startswith("m.jsonl, line 1: the target is NaN") for note in split.notes] == [True] * noted


@pytest.mark.parametrize(
    ("given", "read"),
    [
        *((0, "0"), (-7, "-7"), (7.0, "7"), (-7.0, "-7"), (2**60, str(2**60)), (" a ", "a")),
        *((float(2**53), str(2**53)), (float(-(2**53)), str(-(2**53)))),
    ],
)
def test_an_id_is_text_or_a_whole_number(tmp_path: Path, given: object, read: str) -> None:
    assert read_one(tmp_path, task_id=given).id == read


@pytest.mark.parametrize("given", [2.0**54, -(2.0**54), 7.5, float("inf"), False, [1]])
def test_an_id_that_no_other_reader_would_see_alike_is_refused(tmp_path: Path, given: object) -> None:
    assert "'task_id' must be text, and is " in refusal(tmp_path, GOOD | {"task_id": given})


def read_inputs(folder: Path, **content: Any) -> Sample:
    columns = FoundColumns(
        {**GAIA_COLUMNS, "question": None, "id": None}, inputs={"one": "a", "two": "b"}, tags=("kind_of", "size")
    )
    (sample,) = read_rows([Row("m", content)], Attachments(folder), columns=columns).samples
    return sample


def test_inputs_and_tags_of_any_type_are_texts(tmp_path: Path) -> None:
    sample = read_inputs(tmp_path, a=["\u00e9", {"x": None}], b=True, kind_of=" small ", size=2.0)
    assert dict(sample.inputs) == {"one": '["\u00e9", {"x": null}]', "two": "true"}
    assert sample.question == 'one: ["\u00e9", {"x": null}]\ntwo: true'
    assert sample.tags == {"kind": "none", "kind_of": "small", "size": "2"}
    assert (sample.id, sample.target, sample.level, sample.file) == ("1", None, None, None)
    assert read_inputs(tmp_path, a=math.nan, b=" b ").inputs == {"one": "", "two": " b "}
    assert read_inputs(tmp_path, a="a", kind_of="").tags == {"kind": "none", "kind_of": "none", "size": "none"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"a": object(), "b": "b"}, "'a' must be text, a number, or a list or object of them, and is an object"),
        ({"a": "half \ud83d", "b": "b"}, "'a' holds half a character (a lone surrogate)"),
        ({"a": " ", "b": None}, "'one', 'two' are all missing or empty"),
        ({"a": "a", "size": True}, "'size' must be text or a number, and is a bool"),
    ],
)
def test_inputs_and_tags_that_are_no_texts_are_bad(tmp_path: Path, content: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError) as refused:
        read_inputs(tmp_path, **content)
    assert str(refused.value).startswith(f"m: {problem};")


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({"a": " x"}, " x"),
        ({"a": "x", "b": ""}, "a: x\nb: "),
        ({"a": " ", "b": "y"}, "a:  \nb: y"),
        ({"a": "x", "b": "y", "c": "z"}, "a: x\nb: y\nc: z"),
    ],
)
def test_inputs_are_one_readable_text(inputs: dict[str, str], text: str) -> None:
    assert describe_inputs(inputs) == text


def test_a_single_input_that_is_empty_is_named_alone() -> None:
    with pytest.raises(Exception, match=r"^'a' is missing or empty$"):
        describe_inputs({"a": " "})


@pytest.mark.parametrize(("n_bad", "more"), [(2, ""), (20, ""), (21, "\n  and 1 more"), (23, "\n  and 3 more")])
def test_up_to_twenty_bad_rows_are_listed(tmp_path: Path, n_bad: int, more: str) -> None:
    assert refusal(tmp_path, *[7] * n_bad) == (
        f"{n_bad} rows are bad; correct them, or leave them out with data.on_bad_row=skip:"
        + "".join(
            f"\n  m.jsonl, line {n}: the row is an int, not an object with columns"
            for n in range(1, min(n_bad, 20) + 1)
        )
        + more
    )


def test_up_to_twenty_targets_that_equal_nothing_are_noted_after_the_notes_about_columns(tmp_path: Path) -> None:
    rows = [Row(f"row {number}", GOOD | {"task_id": number, "Final answer": "+NaN"}) for number in range(25)]
    columns = FoundColumns(GAIA_COLUMNS, notes=("first",), labels=("+nan", "b"))
    first, *nan, last = read_rows(rows, Attachments(tmp_path), columns=columns).notes
    assert (first, last) == ("first", "no row here has the label 'b', which data.labels names")
    assert [note.partition(":")[0] for note in nan] == [f"row {number}" for number in range(MAX_LISTED)]


@pytest.mark.parametrize("target", ["yes", "No", "ON", "off"])
@pytest.mark.parametrize(("labels", "hint"), [(("True", "False"), True), (("a", "b"), False)])
def test_what_yaml_reads_as_true_is_explained_where_true_is_a_label(
    tmp_path: Path, target: str, labels: tuple[str, ...], hint: bool
) -> None:
    rows = [Row("m", GOOD | {"Final answer": target})]
    with pytest.raises(UserError) as refused:
        read_rows(rows, Attachments(tmp_path), columns=FoundColumns(GAIA_COLUMNS, labels=labels))
    explained = " (a YAML file reads yes as true: put it in quotes there)" if hint else ""
    assert str(refused.value).startswith(
        f"m: the target '{target}' is not one of data.labels={','.join(labels)}{explained};"
    )


def test_another_target_is_not_explained_by_yaml(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'maybe' is not one of data.labels=True,False; correct"):
        columns = FoundColumns(GAIA_COLUMNS, labels=("True", "False"))
        read_rows([Row("m", GOOD | {"Final answer": "maybe"})], Attachments(tmp_path), columns=columns)


def test_links_may_lead_as_far_as_the_limit(tmp_path: Path) -> None:
    folder, blobs = tmp_path / "repo" / "snapshot", tmp_path / "repo" / "blobs"
    for each in (folder, blobs):
        each.mkdir(parents=True)
    (blobs / "1").write_text("x")
    (tmp_path / "out").write_text("x")
    for name, target in (("in.txt", blobs / "1"), ("out.txt", tmp_path / "out")):
        (folder / name).symlink_to(target)
    found = Attachments(folder, limit=tmp_path / "repo")
    assert found.find("in.txt") == folder / "in.txt"
    for attachments, name in ((found, "out.txt"), (Attachments(folder), "in.txt")):
        with pytest.raises(Exception, match=f"'{name}' is a link that leads out"):
            attachments.find(name)


def test_files_that_hold_the_answers_are_no_attachments_under_any_name(tmp_path: Path) -> None:
    for name in ("data.csv", "mine.json", "metadata.txt", "metadata", "plain.csv"):
        (tmp_path / name).touch()
    (tmp_path / "link.txt").symlink_to("data.csv")
    found = Attachments(tmp_path, metadata=tmp_path / "mine.json", data_files=frozenset({"data.csv"}))
    for name in ("data.csv", "link.txt", "mine.json", "metadata.txt"):
        with pytest.raises(Exception, match=f"'{name}' is the dataset's metadata, which holds the gold answers"):
            found.find(name)
    assert [found.find(name).name for name in ("metadata", "plain.csv")] == ["metadata", "plain.csv"]


@pytest.mark.parametrize(
    ("name", "bare"),
    [("a.csv", True), (".hidden", True), ("a b", True), ("", False), (".", False), ("..", False), ("a/b", False),
     ("a\\b", False), ("C:a", False), ("a\0", False), ("/", False), ("a/", False)],
)  # fmt: skip
def test_a_bare_name_has_no_folder_on_any_system(name: str, bare: bool) -> None:
    assert is_bare_name(name) is bare


def test_attachments_lie_next_to_the_metadata_or_in_the_named_folder(tmp_path: Path) -> None:
    assert find_attachments_folder(None, tmp_path / "m.jsonl") == tmp_path
    assert find_attachments_folder(str(tmp_path), Path("other/m.jsonl")) == tmp_path
    (tmp_path / "file").touch()
    with pytest.raises(UserError) as refused:
        find_attachments_folder(str(tmp_path / "file"), tmp_path / "m.jsonl")
    assert str(refused.value) == (
        f"data.files={tmp_path}/file is not a folder: give the one that holds the attachments, or leave it out."
    )


def test_an_id_that_is_made_is_never_a_number() -> None:
    assert (
        make_question_id(" Cafe\u0301 \n open? ", "a.csv")
        == "q" + sha256("Caf\u00e9 open?\na.csv".encode()).hexdigest()[:12]
    )


def test_ids_are_the_rows_numbers_where_there_is_no_column_of_them(tmp_path: Path) -> None:
    rows = [Row("a", problem="bad"), Row("b", without("task_id")), Row("c", without("task_id"))]
    columns = FoundColumns({**GAIA_COLUMNS, "id": None})
    assert [each.id for each in read_rows(rows, Attachments(tmp_path), "skip", columns).samples] == ["2", "3"]


@pytest.mark.parametrize(
    ("content", "there"),
    [({"task_id": "1", 7: "x"}, "task_id, 7"), ({"Question": None, "task_id": "1"}, None), ({}, None)],
)
def test_a_column_that_a_row_lacks_is_named_with_those_it_has(
    tmp_path: Path, content: dict[Any, Any], there: str | None
) -> None:
    message = refusal(tmp_path, content)
    if there:
        assert message.startswith(
            f"m.jsonl, line 1: 'Question' is missing or empty (data.columns.question); the row has: {there};"
        )
    elif content:
        assert message.startswith("m.jsonl, line 1: 'Question' is missing or empty;")
    else:
        assert message.startswith(
            "m.jsonl, line 1: 'task_id' is missing or empty (data.columns.id); the row has: nothing;"
        )


@pytest.mark.parametrize("way", ["refuse", "skip"])
def test_without_a_good_row_the_place_and_the_first_bad_one_are_named(tmp_path: Path, way: str) -> None:
    rows = [Row(f"row {n}", problem=f"bad {n}") for n in (1, 2)]
    with pytest.raises(UserError) as refused:
        read_rows(rows if way == "skip" else [], Attachments(tmp_path, metadata=Path("m.jsonl")), way)
    reason = "all 2 are bad, the first one being row 1: bad 1" if way == "skip" else "the metadata is empty"
    assert str(refused.value) == f"No rows are left in m.jsonl: {reason}; correct the data."
    with pytest.raises(UserError, match=f"^No rows are left in {tmp_path}: the metadata is empty"):
        read_rows([], Attachments(tmp_path), way)
