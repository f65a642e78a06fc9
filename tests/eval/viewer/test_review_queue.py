import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.runs.store import RunStore
from eval.viewer.catalogue import Catalogue
from eval.viewer.review_queue import ReviewQueue, Verdict
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered, stored_run

DATA = "d" * 64


@pytest.fixture
def found(tmp_path: Path) -> Iterator[ReviewQueue]:
    records = [
        answered("right", "17"),
        replace(answered("down", None), error="down", score=None),
        answered("wrong", "18"),
        answered("unscored", "18", gold=None),
        replace(answered("wrong", "18"), epoch=2),
    ]
    run = stored_run(tmp_path / "eval" / "night", records, epochs=2, dataset_sha256=DATA)
    with closing(ReviewQueue(run, tmp_path / "gold")) as queue:
        yield queue


def test_wrong_answers_come_first_and_answers_without_a_target_do_not_come(found: ReviewQueue) -> None:
    items = found.list_items()
    assert [(each["id"], each["epoch"], each["mark"]) for each in items] == [
        ("wrong", 1, "wrong"), ("wrong", 2, "wrong"), ("down", 1, "error"), ("right", 1, "right"),
    ]  # fmt: skip


def test_a_label_is_shown_on_all_answers_that_it_holds_for_until_it_is_taken_back(found: ReviewQueue) -> None:
    row = int(str(found.list_items()[0]["row"]))
    saved = found.save(row, Verdict("right", note="same thing"), who="ada")
    labels = [each["labels"] for each in found.list_items()]
    assert labels == [[saved], [saved], [], []], "the same answer in the other epoch"
    assert found.read_answer(row)["labels"] == [saved]
    found.withdraw(str(saved["id"]), "ada")
    assert [each["labels"] for each in found.list_items()] == [[], [], [], []]
    with pytest.raises(UserError, match="no such label"):
        found.withdraw(str(saved["id"]), "ada")


def test_the_latest_attempt_is_reviewed(found: ReviewQueue) -> None:
    with RunStore(found.folder / "run.db") as store:
        store.write(replace(answered("wrong", "19"), attempt=2))
    assert [found.read_answer(int(str(each["row"])))["answer"] for each in found.list_items()] == [
        "19",
        "18",
        None,
        "17",
    ]


def test_the_labels_are_kept_next_to_the_runs(tmp_path: Path, found: ReviewQueue) -> None:
    folder = found.folder
    for place in (tmp_path, tmp_path / "eval", folder):
        assert Catalogue(place).gold == tmp_path / "gold"
        catalogue = Catalogue(place)
        assert [catalogue.find(each) for each in catalogue.list_evaluations()] == [folder]


def test_an_answer_is_shown_with_what_cost_its_point(found: ReviewQueue) -> None:
    shown = [found.read_answer(int(str(each["row"])))["lost"] for each in found.list_items()]
    assert shown[2].startswith("error ") and shown[3] == ""  # type: ignore[attr-defined]


def test_answers_of_a_part_of_a_proof_are_not_reviewed(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "expert", [answered("q1", "18")], dataset_sha256="d" * 64, gold_informed="expert")
    queue = ReviewQueue(folder, tmp_path / "gold")
    assert "right answers" in queue.explain_refusal()
    with pytest.raises(UserError, match="right answers"):
        queue.save(1, Verdict("wrong"), "ada")
    queue.close()


def row_of(queue: ReviewQueue, sample_id: str) -> int:
    return next(int(str(each["row"])) for each in queue.list_items() if each["id"] == sample_id)


def test_everything_that_a_person_needs_is_shown(tmp_path: Path) -> None:
    steps = [{"id": 0, "parent": None, "kind": "agent", "name": "solver", "outputs": {"answer": "18"}}]
    half = answered("half", "18", score=0.5, explanation="half of it", file="a.csv", epoch=2, trajectory=steps)
    bare = answered("bare", None, score=None, error="down", level=None, reasoning_trace="r" * 2_001, trajectory=[])
    run = stored_run(tmp_path / "night", [half, bare], epochs=2, dataset_sha256=DATA)
    with closing(ReviewQueue(run, tmp_path / "gold")) as queue:
        shown = queue.read_answer(row_of(queue, "half"))
        lost = shown.pop("lost")
        (step,) = shown.pop("steps")  # type: ignore[misc]
        assert (step["title"], step["said"]) == ("solver", [("answer", "18")])
        assert shown == {
            "row": 1, "id": "half", "epoch": 2, "level": "1", "question": "What is half?", "file": "a.csv",
            "target": "17", "answer": "18", "mark": "partial", "explanation": "half of it", "error": "",
            "reasoning": "because", "labels": [],
        }  # fmt: skip
        assert str(lost).startswith("agent solver: ")
        other = queue.read_answer(row_of(queue, "bare"))
        names = ("level", "file", "mark", "error", "answer", "reasoning", "steps")
        cut = "r" * 2_000 + "… 1 characters more in records.jsonl"
        assert [other[name] for name in names] == ["", "", "error", "down", None, cut, []]


def test_an_item_has_its_row_and_a_short_question_and_partly_right_answers_stand_with_the_wrong(tmp_path: Path) -> None:
    records = [
        answered("right", "17"), answered("half", "18", score=0.5, question="q\n" * 200), answered("wrong", "3"),
        answered("down", None, score=None, error="down"),
    ]  # fmt: skip
    run = stored_run(tmp_path / "night", records, dataset_sha256=DATA)
    with closing(ReviewQueue(run, tmp_path / "gold")) as queue:
        items = queue.list_items()
    assert [(each["row"], each["mark"]) for each in items] == [(2, "partial"), (3, "wrong"), (4, "error"), (1, "right")]
    assert items[0] == {
        "row": 2, "id": "half", "epoch": 1, "mark": "partial", "question": ("q " * 100)[:199] + "…", "labels": []
    }  # fmt: skip


def test_an_earlier_attempt_that_was_written_later_is_not_reviewed(tmp_path: Path) -> None:
    records = [answered("q1", "18", attempt=2), answered("q1", "19", attempt=1)]
    run = stored_run(tmp_path / "night", records, dataset_sha256=DATA)
    with closing(ReviewQueue(run, tmp_path / "gold")) as queue:
        assert [each["row"] for each in queue.list_items()] == [1]


def test_a_label_names_its_run_and_person_and_may_correct_the_target(found: ReviewQueue) -> None:
    saved = found.save(row_of(found, "wrong"), Verdict("wrong_gold", target="18", note="table 2"), who="ada")
    assert {name: saved[name] for name in ("label", "target", "note", "who", "run")} == {
        "label": "wrong_gold", "target": "18", "note": "table 2", "who": "ada", "run": "night"
    }  # fmt: skip
    assert saved.keys() == {"id", "label", "target", "note", "who", "when", "run"}
    assert [each["labels"] for each in found.list_items()] == [[saved], [saved], [], []], "of the question"
    on_answer = found.save(row_of(found, "wrong"), Verdict("wrong"), who="bob")
    assert found.read_answer(row_of(found, "wrong"))["labels"] == [saved, on_answer]


@pytest.mark.parametrize("row", [0, 99])
def test_a_row_that_is_not_there_is_a_sentence(found: ReviewQueue, row: int) -> None:
    with pytest.raises(UserError, match=r"^there is no such answer; reload the page\.$"):
        found.read_answer(row)
    with pytest.raises(UserError, match="no such answer"):
        found.save(row, Verdict("wrong"), "ada")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, ""),
        ({"rescored_from": "evening"}, "It was scored again from evening; review the answers of that run."),
        (
            {"dataset_sha256": ""},
            "It does not say which data it was made with, so labels on it could not be used.",
        ),
    ],
)
def test_why_a_run_is_not_reviewed(tmp_path: Path, facts: dict[str, Any], reason: str) -> None:
    run = stored_run(tmp_path / "night", [answered("q1", "18")], **{"dataset_sha256": DATA, **facts})
    with closing(ReviewQueue(run, tmp_path / "gold")) as queue:
        assert queue.explain_refusal() == reason
        if reason:
            with pytest.raises(UserError, match=re.escape(reason)):
                queue.save(1, Verdict("wrong"), "ada")
    assert not (tmp_path / "gold").exists()


def test_lines_that_are_no_labels_are_counted(found: ReviewQueue) -> None:
    assert found.count_unreadable() == 0
    found.gold.mkdir()
    (found.gold / f"{DATA}.jsonl").write_text("no label\n{}\n")
    assert found.count_unreadable() == 2


def test_a_folder_that_cannot_be_read_is_a_sentence_and_a_closed_queue_opens_again(
    found: ReviewQueue, tmp_path: Path
) -> None:
    assert found.list_items()
    found.close()
    assert found.list_items()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(b"no store")
    with closing(ReviewQueue(tmp_path / "broken", tmp_path / "gold")) as queue, pytest.raises(UserError, match=r"\.$"):
        queue.list_items()
