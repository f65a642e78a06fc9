from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from eval.runs.store import RunStore, StoreError
from eval.viewer.application import Desk
from eval.viewer.review_queue import ReviewQueue
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
    queue = ReviewQueue(run, tmp_path / "gold")
    with closing(queue.store):
        yield queue


def test_wrong_answers_come_first_and_answers_without_a_target_do_not_come(found: ReviewQueue) -> None:
    items = found.list_items()
    assert [(each["id"], each["epoch"], each["mark"]) for each in items] == [
        ("wrong", 1, "wrong"), ("wrong", 2, "wrong"), ("down", 1, "error"), ("right", 1, "right"),
    ]  # fmt: skip


def test_a_label_is_shown_on_all_answers_that_it_holds_for_until_it_is_taken_back(found: ReviewQueue) -> None:
    row = int(str(found.list_items()[0]["row"]))
    saved = found.save(row, "right", who="ada", note="same thing")
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


def test_a_run_is_found_in_outputs_in_a_folder_of_runs_and_alone(tmp_path: Path, found: ReviewQueue) -> None:
    folder = found.folder
    for place in (tmp_path, tmp_path / "eval", folder):
        desk = Desk(place, "ada")
        assert desk.find(desk.name(folder)) == folder


def test_an_answer_is_shown_with_what_cost_its_point(found: ReviewQueue) -> None:
    shown = [found.read_answer(int(str(each["row"])))["lost"] for each in found.list_items()]
    assert shown[2].startswith("error ") and shown[3] == ""  # type: ignore[attr-defined]


def test_answers_of_a_part_of_a_proof_are_not_reviewed(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "expert", [answered("q1", "18")], dataset_sha256="d" * 64, gold_informed="expert")
    queue = ReviewQueue(folder, tmp_path / "gold")
    assert "right answers" in queue.explain_refusal()
    with pytest.raises(UserError, match="right answers"):
        queue.save(1, "wrong", "ada")
    queue.store.close()


def test_a_folder_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(b"no store")
    with pytest.raises(StoreError, match="is damaged"):
        ReviewQueue(tmp_path / "broken", tmp_path / "gold").list_items()


def test_an_earlier_attempt_that_was_written_later_is_not_reviewed(tmp_path: Path) -> None:
    records = [answered("q1", "18", attempt=2), answered("q1", "19", attempt=1)]
    run = stored_run(tmp_path / "night", records, dataset_sha256=DATA)
    queue = ReviewQueue(run, tmp_path / "gold")
    with closing(queue.store):
        assert [each["row"] for each in queue.list_items()] == [1]
