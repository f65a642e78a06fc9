"""What a sealed test has asked so far, by the stores of its two sides."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from eval.runs.store import RETRIED, UNFINISHED, RunStore
from optimize.pipeline.sealed_answers import (
    count_asked_questions,
    count_remaining_answers,
    count_test_answers,
    is_judged,
)
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


def test_what_is_judged_or_stopped_at_a_look_has_no_answers_left(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert (count_test_answers(run), is_judged(run)) == (12, False)
    (tmp_path / "sealed").mkdir()
    for decisions, left in ((["continue"], 6), (["continue", "success"], 0), (["hopeless"], 0), ([], 6)):
        (tmp_path / "sealed" / "looks.json").write_text(json.dumps([{"decision": each} for each in decisions]))
        assert count_remaining_answers(run) == (left, left)
    (tmp_path / "sealed" / "judged.json").write_text("{}")
    assert is_judged(run) and count_remaining_answers(run) == (0, 0)


def test_an_answer_that_will_be_asked_again_is_missing_and_its_question_was_asked(tmp_path: Path) -> None:
    (tmp_path / "sealed" / "winner").mkdir(parents=True)
    with RunStore(tmp_path / "sealed" / "winner" / "run.db") as store:
        for number, error_class in enumerate((*UNFINISHED, *RETRIED)):
            lost = record("1", "1", sample_id=f"q{number}", epoch=1)
            store.write(replace(lost, error="lost", error_class=error_class))
        store.write(replace(record("1", "1", sample_id="q0", epoch=2), error="lost", error_class="malformed"))
    run = a_run(tmp_path)
    assert count_remaining_answers(run) == (6, 5)
    assert count_asked_questions(run) == len({*UNFINISHED, *RETRIED})
