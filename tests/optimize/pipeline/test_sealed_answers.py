"""What a sealed test has asked so far, by the stores of its two sides."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from eval.runs.store import RunStore
from optimize.pipeline.sealed_answers import count_asked_questions, count_remaining_answers
from optimize.session.run_files import RunFiles
from tests.optimize.simulated_runs import record


def a_run(folder: Path) -> Any:
    """Three sealed questions, each side to answer each of them twice."""
    gate, splits = SimpleNamespace(epochs=2), SimpleNamespace(sealed=("q1", "q2", "q3"))
    return SimpleNamespace(files=RunFiles(folder), config=SimpleNamespace(gate=gate), splits=splits)


def test_before_its_first_answer_nothing_is_asked_and_all_is_missing(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert (count_asked_questions(run), count_remaining_answers(run)) == (0, (6, 6))


def test_a_question_that_either_side_has_answered_was_asked(tmp_path: Path) -> None:
    for arm, answers in (("parent", [("q1", 1), ("q1", 2), ("q2", 1)]), ("winner", [("q1", 1)])):
        (tmp_path / "sealed" / arm).mkdir(parents=True)
        with RunStore(tmp_path / "sealed" / arm / "run.db") as store:
            for sample_id, epoch in answers:
                store.write(record("1", "1", sample_id=sample_id, epoch=epoch))
    run = a_run(tmp_path)
    assert (count_asked_questions(run), count_remaining_answers(run)) == (2, (3, 5))
