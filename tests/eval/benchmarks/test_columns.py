"""Which column is taken for what, and what is asked of the user where that is not clear."""

from types import SimpleNamespace
from typing import Any

import pytest

from eval.benchmarks.columns import (
    AS_GAIA,
    GAIA_COLUMNS,
    Columns,
    ColumnSettings,
    FoundColumns,
    complete_columns,
    find_columns,
    parse_inputs,
    parse_labels,
    parse_tags,
    read_labels,
)
from mas.runtime.errors import UserError

ENOUGH_OF_JSONL = ("id", "question")


def refusal(columns: Columns, *there: str) -> str:
    with pytest.raises(UserError) as raised:
        find_columns(columns, there, "q.csv")
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("there", "names"),
    [
        (["question", "answer"], (None, "question", "answer", None, None)),
        (["ID", "Input", "Target"], ("ID", "Input", "Target", None, None)),
        (["id", "prompt", "expected_output", "level", "file"], ("id", "prompt", "expected_output", "level", "file")),
        (["Task_ID", "problem", "Final_Answer"], ("Task_ID", "problem", "Final_Answer", None, None)),
        (["task_id", "id", "Question", "question", "answer"], ("task_id", "Question", "answer", None, None)),
    ],
)
def test_columns_are_known_by_their_usual_names_and_gaias_come_first(
    there: list[str], names: tuple[str | None, ...]
) -> None:
    assert tuple(find_columns({}, there, "q.csv").names.values()) == tuple(names)


def test_what_was_guessed_is_told() -> None:
    columns, ids = find_columns({}, ["input", "target"], "q.csv").notes
    assert columns.startswith("columns found by their usual names: question = 'input', answer = 'target' (")
    assert ids.startswith("ids are made from the questions")
    assert find_columns({}, list(GAIA_COLUMNS.values()), "q.csv").notes == ()
    assert find_columns({}, ["TASK_ID", "question", "final_answer"], "q.csv").notes == ()


@pytest.mark.parametrize("columns", [{}, {"question": "prompt", "answer": "label"}, {"answer": None}])
def test_data_that_gaias_names_or_the_users_suffice_for_are_read_by_them_alone(columns: Columns) -> None:
    there = [*filter(None, complete_columns(columns).values()), "id", "file", "level"]
    there.remove("task_id"), there.remove("file_name"), there.remove("Level")
    found = find_columns(columns, there, "q.csv")
    assert (found.names["id"], found.names["file"], found.names["level"]) == (None, None, None)
    assert not found.ids_from_questions and found.notes == ()


def test_rows_are_numbered_where_the_user_says_that_there_are_no_ids() -> None:
    found = find_columns({"id": None}, ["question", "answer", "id"], "q.csv")
    assert found.names["id"] is None and not found.ids_from_questions


def test_a_named_column_is_kept_and_the_others_are_found() -> None:
    found = find_columns({"question": "text"}, ["text", "input", "target"], "q.csv")
    assert (found.names["question"], found.names["answer"]) == ("text", "target")


def test_the_column_of_gold_answers_is_never_taken_for_the_question() -> None:
    assert find_columns({"answer": "input"}, ["input", "prompt"], "q.csv").names["question"] == "prompt"
    assert "no column for the question" in refusal({"answer": "input"}, "input", "text")


def test_gold_answers_that_json_lines_need_not_have_are_asked_after() -> None:
    found = find_columns({}, ["task_id", "Question", "answer"], "metadata.jsonl", ENOUGH_OF_JSONL)
    assert found.names["answer"] is None
    assert found.notes == (
        "unscored, for there is no column 'Final answer'; is it 'answer'? (data.columns.answer=NAME)",
    )


def test_everything_that_is_missing_is_told_at_once() -> None:
    assert refusal({"level": "grade"}, "text", "label") == (
        "q.csv has no column for the question (Question, input, prompt, problem), no column for the answer (Final "
        "answer, answer, target, expected, expected answer, expected output) and no column 'grade': name what it has "
        "with data.columns.question=…, data.columns.answer=… (null to run unscored) and data.columns.level=… (null to "
        "do without); its columns are: text, label."
    )


def test_two_columns_that_may_be_meant_are_to_be_named() -> None:
    assert refusal({}, "question", "input", "answer") == (
        "q.csv has several columns that may be the question (question, input): name what it has with "
        "data.columns.question=…; its columns are: question, input, answer."
    )
    assert find_columns({"question": "input"}, ["question", "input", "answer"], "q.csv").names["question"] == "input"


def test_a_misspelt_name_is_not_replaced_by_a_usual_one() -> None:
    assert "q.csv has no column 'promt'" in refusal({"question": "promt"}, "prompt", "answer")


def test_an_unknown_key_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"data\.columns has no key 'qestion': use some of id, question, answer"):
        complete_columns({"qestion": "prompt"})


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (None, {}),
        ("body", {"body": "body"}),
        (["title", "body"], {"title": "title", "body": "body"}),
        (("b", "a", 3), {"b": "b", "a": "a", "3": "3"}),
        ({"ticket": "body", "n": 4}, {"ticket": "body", "n": "4"}),
    ],
)
def test_inputs_are_fields_with_their_columns_in_order(given: object, fields: dict[str, str]) -> None:
    assert list(parse_inputs(given).items()) == list(fields.items())


@pytest.mark.parametrize(
    "given", [[], {}, 3, ["a", ""], ["a", " "], [None], {"": "a"}, {"a": None}, {"a": "b", "c": ""}]
)
def test_inputs_that_cannot_be_read_are_refused_with_an_example(given: object) -> None:
    with pytest.raises(UserError) as refused:
        parse_inputs(given)
    assert str(refused.value) == (
        f"data.inputs={given} cannot be read; expected a list of columns, such as data.inputs=[title,body], or "
        "'data.inputs={field: column}' where the names differ."
    )


def test_a_column_for_two_inputs_is_refused_with_both_fields() -> None:
    with pytest.raises(UserError) as refused:
        parse_inputs({"one": "z", "two": "b", "three": "b", "four": "z", "five": "c"})
    assert str(refused.value) == (
        "data.inputs names the column 'b' twice (for the fields two, three): give each field a column of its own."
    )


@pytest.mark.parametrize(
    ("given", "labels"),
    [([], ()), (None, ()), (["a", " b "], ("a", "b")), ((0, 1.5), ("0", "1.5")), ([True, False], ("True", "False"))],
)
def test_labels_are_texts(given: object, labels: tuple[str, ...]) -> None:
    assert parse_labels(given) == labels
    assert read_labels(SimpleNamespace(labels=given)) == labels
    assert read_labels(object()) == ()


@pytest.mark.parametrize(
    "given", [["a"], ["a", "A"], ["a", "b", " a"], ["a", " "], ["a", "b", None], "a", ["a", "b", ["c"]]]
)
def test_labels_that_are_no_two_different_ones_are_refused(given: object) -> None:
    with pytest.raises(UserError) as refused:
        parse_labels(given)
    assert str(refused.value) == (
        f"data.labels={given} cannot be read; expected a list of at least two different labels, such as "
        "data.labels=[billing,refund] (case and white space make no difference)."
    )


@pytest.mark.parametrize(("given", "tags"), [([], ()), (None, ()), (["a"], ("a",)), ((" b ", 3, "B"), ("b", "3", "B"))])
def test_tags_are_columns(given: object, tags: tuple[str, ...]) -> None:
    assert parse_tags(given) == tags


@pytest.mark.parametrize("given", [["a", "a "], ["a", ""], "a", {"a": "b"}])
def test_tags_that_are_no_different_columns_are_refused(given: object) -> None:
    with pytest.raises(UserError) as refused:
        parse_tags(given)
    assert str(refused.value) == (
        f"data.tags={given} cannot be read; expected a list of different columns, such as data.tags=[kind,source]."
    )


def test_gaias_columns_are_all_that_is_read_unless_something_else_is_found() -> None:
    assert FoundColumns(GAIA_COLUMNS, ids_from_questions=False, notes=(), inputs={}, labels=(), tags=()) == AS_GAIA
    assert AS_GAIA.list_used() == ["task_id", "Question", "Final answer", "Level", "file_name"]
    names: dict[str, str | None] = {"id": None, "question": None, "answer": "label", "level": "kind", "file": None}
    found = FoundColumns(names, inputs={"one": "title", "two": "body"}, tags=("kind", "source"))
    assert found.list_used() == ["label", "kind", "title", "body", "source"]


THERE = ["id", "title", "body", "label", "kind", "target"]


def settings(**given: Any) -> FoundColumns:
    made = ColumnSettings(**given)
    made.check_columns()
    return made.find_columns(THERE, "q.csv")


def test_settings_name_inputs_target_labels_and_tags() -> None:
    found = settings(inputs=["title", "body"], target_column="label", labels=["x", "y"], tags=["kind"])
    assert found == FoundColumns(
        {"id": "id", "question": None, "answer": "label", "level": None, "file": None},
        inputs={"title": "title", "body": "body"},
        labels=("x", "y"),
        tags=("kind",),
        notes=("columns found by their usual names: id = 'id' (others: data.columns.KEY=NAME)",),
    )
    target = {"columns": {"question": "title"}, "target_column": "label"}
    assert (
        settings(**target)
        == settings(columns={"question": "title", "answer": "label"})
        == settings(columns={"question": "title", "answer": "label"}, target_column="label")
    )


def test_a_target_among_the_inputs_is_not_found_by_its_usual_name() -> None:
    with pytest.raises(UserError, match="no column for the answer"):
        settings(inputs=["title", "target"])
    assert settings(inputs=["title"]).names["answer"] == "target"


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        (
            {"tags": ["kind", "sort"], "columns": {"question": "title"}},
            "q.csv has no column 'sort', which data.tags names; its columns are: id, title, body, label, kind, target.",
        ),
        (
            {"target_column": "gold", "tags": ["sort"], "inputs": ["title"]},
            "q.csv has no column 'gold', which data.target_column names; its columns are: id, title, body, label, "
            "kind, target.",
        ),
        (
            {"target_column": "label", "columns": {"answer": "body"}},
            "data.target_column=label and data.columns.answer=body both name the target: leave one of them out.",
        ),
        (
            {"inputs": ["titel", "body"], "target_column": "label"},
            "q.csv has no column 'titel', which data.inputs names: correct the name, or say which column holds the "
            "field with 'data.inputs={field: column}'; its columns are: id, title, body, label, kind, target.",
        ),
        (
            {"inputs": {"a": "x", "b": "body", "c": "y", "z": "z"}, "target_column": "label"},
            "q.csv has no column 'x' (a), 'y' (c) and 'z', which data.inputs names: correct the name, or say which "
            "column holds the field with 'data.inputs={field: column}'; its columns are: id, title, body, label, kind, "
            "target.",
        ),
        (
            {"inputs": ["title", "body"], "columns": {"question": "kind"}},
            "data.columns.question=kind and data.inputs=title,body both name what is asked: leave one of them out.",
        ),
        (
            {"inputs": {"one": "title", "two": "label"}, "target_column": "label"},
            "data.inputs gives the column 'label' to the field 'two', and it is also the target column, which would "
            "show the gold answers: take it out of one of them.",
        ),
        ({"columns": {"question": None}}, "data.columns.question is empty: name the column that holds the questions."),
        ({"columns": {"question": ""}}, "data.columns.question is empty: name the column that holds the questions."),
        (
            {"columns": {"level": "label", "file": "label", "answer": "label"}},
            "data.columns.level and data.columns.answer are both 'label', which would show the gold answers: name "
            "another column for one of them.",
        ),
        (
            {"columns": {"z": "a", "b": "c"}},
            "data.columns has no key 'b': use some of id, question, answer, level, file.",
        ),
        ({"tags": ["a", "a"]}, "data.tags=['a', 'a'] cannot be read; expected a list of different columns, such as "
         "data.tags=[kind,source]."),
        ({"labels": [1]}, "data.labels=[1] cannot be read; expected a list of at least two different labels, such as "
         "data.labels=[billing,refund] (case and white space make no difference)."),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_kept_are_one_sentence(given: dict[str, Any], refusal: str) -> None:
    with pytest.raises(UserError) as refused:
        settings(**given)
    assert str(refused.value) == refusal


@pytest.mark.parametrize(
    "given", [{"tags": ["a", ""]}, {"labels": ["a"]}, {"inputs": []}, {"columns": {"question": None}}]
)
def test_settings_are_checked_before_any_data_are_read(given: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        ColumnSettings(**given).check_columns()


def test_data_without_columns_say_so() -> None:
    with pytest.raises(UserError, match=r"^q\.csv has no column 'a', which data\.tags names; its columns are: none\.$"):
        ColumnSettings(tags=["a"]).find_columns([], "q.csv")
    with pytest.raises(UserError, match=r"its columns are: none\.$"):
        ColumnSettings(inputs=["a"]).find_columns([], "q.csv")
    with pytest.raises(UserError, match=r"its columns are: none\.$"):
        ColumnSettings().find_columns([], "q.csv")


def test_all_that_was_guessed_is_noted_in_one_line_each() -> None:
    found = find_columns({"level": "grade"}, ["prompt", "Expected_Output", "grade", "attachment"], "q.csv")
    assert found == FoundColumns(
        {"id": None, "question": "prompt", "answer": "Expected_Output", "level": "grade", "file": "attachment"},
        ids_from_questions=True,
        notes=(
            "columns found by their usual names: question = 'prompt', answer = 'Expected_Output', file = 'attachment' "
            "(others: data.columns.KEY=NAME)",
            "ids are made from the questions, since there is no column of ids",
        ),
    )


def test_data_without_an_answer_say_that_nothing_is_scored_unless_it_was_asked_for() -> None:
    enough = ("id", "question")
    assert find_columns({}, ["task_id", "Question"], "m.jsonl", enough).notes == (
        "unscored, for there is no column 'Final answer' (data.columns.answer=NAME)",
    )
    assert find_columns({"answer": None}, ["task_id", "Question"], "m.jsonl", enough).notes == ()
    assert find_columns({}, ["id", "prompt"], "m.jsonl", enough).notes == (
        "columns found by their usual names: id = 'id', question = 'prompt' (others: data.columns.KEY=NAME)",
        "unscored, for there is no column 'Final answer' (data.columns.answer=NAME)",
    )
