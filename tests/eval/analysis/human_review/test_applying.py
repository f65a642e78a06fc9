from dataclasses import replace
from pathlib import Path

import pytest

from eval.analysis.human_review.applying import (
    FoundLabels,
    LabelIndex,
    attach_labels,
    find_gold_folder,
    list_verdicts,
    overrule_score,
)
from eval.analysis.human_review.labels import HumanLabel, LabelBook, append_label, describe_label, withdraw
from eval.cli.paths import OUTPUTS
from eval.runs.record import HumanVerdict, PlannedQuestion, Record
from eval.runs.run_info import RunInfo, TaskInfo
from tests.eval.stored_run import answered


def label(record: Record, kind: str, when: str = "1", **parts: str) -> HumanLabel:
    found = describe_label(record, kind, file_sha256=parts.pop("file", None), who="ada", run="night", **parts)
    return replace(found, when=when)


def index(*labels: HumanLabel) -> LabelIndex:
    return LabelIndex(LabelBook(list(labels)))


def test_a_label_on_an_answer_holds_for_the_same_answer_of_every_run_and_for_no_other() -> None:
    found = index(label(answered("q1", "18 apples"), "right"))
    same = replace(answered("q1", "18  Apples"), run_id="another", epoch=3)
    assert found.find(same, None).on_answer
    overrule_score(same, found.find(same, None))
    assert same.score == 1.0
    assert "17" not in same.explanation
    for other in (answered("q1", "19"), answered("q2", "18 apples"), answered("q1", "18 apples", gold="18")):
        assert not found.find(other, None), other
    assert not found.find(replace(answered("q1", "18 apples"), question="another text"), None)
    assert not found.find(same, "digest of an attachment")


def test_an_answer_in_error_is_never_right() -> None:
    failed = replace(answered("q1", "18"), error="down", score=None)
    found = index(label(answered("q1", "18"), "right")).find(failed, None)
    overrule_score(failed, found)
    assert failed.score is None


def test_of_a_corrected_target_and_a_label_on_the_answer_the_later_one_decides() -> None:
    record = answered("q1", "18")
    wrong, corrected = label(record, "wrong", "2"), label(record, "wrong_gold", "1", target="18")
    assert index(corrected, wrong).find(record, None).overrules is wrong
    late = replace(corrected, when="3")
    found = index(wrong, late).find(record, None)
    assert (found.overrules, found.corrected_target) == (None, "18")


def test_the_last_label_on_a_question_holds() -> None:
    record = answered("q1", "18")
    found = index(label(record, "wrong_gold", "1", target="18"), label(record, "ambiguous", "2")).find(record, None)
    assert found.corrected_target is None
    assert found.on_question and found.on_question.label == "ambiguous"


def test_labels_are_attached_to_a_run_without_changing_its_scores(tmp_path: Path) -> None:
    record = answered("q1", "18")
    append_label(tmp_path, "d" * 64, label(record, "right", file="of the file"))
    info = RunInfo(task=TaskInfo(file_sha256={"q1": "of the file"}))
    (found,) = attach_labels([record], info, tmp_path)
    assert found.score == 0.0
    assert [(each.label, each.is_applied, each.score_before) for each in found.human] == [("right", False, 0.0)]
    (again,) = attach_labels([answered("q1", "18")], replace(info, rescored_from="night"), tmp_path)
    assert again.human == []


def test_of_labels_of_the_same_moment_that_on_the_answer_decides() -> None:
    record = answered("q1", "18")
    wrong, corrected = label(record, "wrong", "2"), label(record, "wrong_gold", "2", target="19")
    found = index(wrong, corrected).find(record, None)
    assert (found.overrules, found.corrected_target) == (wrong, "19")


def test_a_label_that_was_taken_back_is_only_found_where_that_is_asked_for(tmp_path: Path) -> None:
    record = answered("q1", "18")
    book = LabelBook([], [label(record, "right")])
    assert not LabelIndex(book) and not LabelIndex(book).find(record, None)
    kept = LabelIndex(book, keeps_withdrawn=True).find(record, None).on_answer
    assert kept is not None and kept.label == "withdrawn"
    given = label(record, "right", "2026-11-21T10:00:00+00:00")
    for each in (given, withdraw(given, "ada")):
        append_label(tmp_path, "d" * 64, each)
    (plain,) = attach_labels([answered("q1", "18")], RunInfo(), tmp_path)
    (asked,) = attach_labels([answered("q1", "18")], RunInfo(), tmp_path, keeps_withdrawn=True)
    assert plain.human == [] and [each.label for each in asked.human] == ["withdrawn"]


def test_what_a_record_keeps_of_the_labels_on_it() -> None:
    record = answered("q1", "18", score=0.25)
    corrected = label(record, "wrong_gold", "1", target="18", note="table 2")
    right = label(record, "right", "2")
    found = index(corrected, right).find(record, None)
    for is_applied in (False, True):
        assert list_verdicts(record, found, is_applied=is_applied) == [
            HumanVerdict(
                id=corrected.id, label="wrong_gold", who="ada", when="1", run="night", note="table 2", target="18",
                target_before="17", score_before=0.25, is_of_question=True, is_applied=is_applied,
            ),
            HumanVerdict(
                id=right.id, label="right", who="ada", when="2", run="night", note="", target=None, target_before="17",
                score_before=0.25, is_of_question=False, is_applied=is_applied,
            ),
        ]  # fmt: skip
    assert list_verdicts(record, FoundLabels(), is_applied=True) == [] and not FoundLabels()
    assert FoundLabels(corrected) and FoundLabels(None, right)
    assert FoundLabels(right).corrected_target is None and FoundLabels(corrected).overrules is None


@pytest.mark.parametrize(
    ("kind", "score", "explanation"),
    [
        ("right", 1.0, "a person accepted this answer as right"),
        ("wrong", 0.0, "a person found this answer wrong"),
    ],
)
def test_a_person_s_label_is_the_score_whatever_the_scorer_said(kind: str, score: float, explanation: str) -> None:
    record = answered("q1", "18", score=0.5, explanation="half of it")
    overrule_score(record, FoundLabels())
    assert (record.score, record.explanation) == (0.5, "half of it")
    overrule_score(record, index(label(record, kind)).find(record, None))
    assert (record.score, record.explanation) == (score, explanation)


def test_labels_on_questions_hold_for_planned_ones_too() -> None:
    record = answered("q1", "18")
    ambiguous, right = label(record, "ambiguous", file="of the file"), label(record, "right", file="of the file")
    planned = PlannedQuestion("q1", record.question, "a.csv", "17")
    found = index(ambiguous, right)
    assert found and found.find(planned, "of the file") == FoundLabels(ambiguous, None)
    assert found.find(record, "of the file") == FoundLabels(ambiguous, right)
    for other in (replace(planned, id="q2"), replace(planned, target=None), replace(planned, target="18")):
        assert not found.find(other, "of the file")
    assert not found.find(planned, None) and not LabelIndex()


def test_labels_lie_next_to_the_evaluations_or_in_the_outputs(tmp_path: Path) -> None:
    assert find_gold_folder(tmp_path / "eval" / "night") == tmp_path / "gold"
    assert find_gold_folder(tmp_path / "other" / "night") == OUTPUTS / "gold"
