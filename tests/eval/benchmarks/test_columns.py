"""Which column is taken for what, and what is asked of the user where that is not clear."""

import pytest

from eval.benchmarks.columns import GAIA_COLUMNS, Columns, complete_columns, find_columns
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
