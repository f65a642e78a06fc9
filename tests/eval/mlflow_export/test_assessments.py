"""The assessments of an answer, by name, value, source and reason."""

from typing import Any

from eval.mlflow_export.assessments import build_assessments, list_assessment_names
from eval.runs.record import ExtraScore, HumanVerdict, Record
from tests.eval.mlflow_export.records import a_record


def build(record: Record) -> dict[str, Any]:
    found = {each.name: each for each in build_assessments(record, "run", 1_000_000_000)}
    assert list(found) == list_assessment_names(record)
    assert len({each.assessment_id for each in found.values()}) == len(found)
    assert {(each.run_id, each.create_time_ms) for each in found.values()} == {
        ("run", 1_000 + round(record.wall_seconds * 1000))
    }
    return found


def judged(name: str) -> dict[str, Any]:
    return {"id": 99, "parent": None, "kind": "scorer", "name": name}


def test_a_right_answer_has_target_verdict_diagnostics_and_no_error() -> None:
    found = build(a_record())
    assert found["expected_response"].value == "391" and found["expected_response"].source.source_type == "HUMAN"
    correct = found["correct"]
    assert (correct.value, correct.rationale, correct.source.source_type) == (True, "equal numbers", "CODE")
    assert found["format_ok"].value is True, "the pages paint False red"
    assert "format_loss" not in found
    assert (found["error_class"].value, found["error_class"].rationale) == ("none", None)


def test_an_answer_in_error_is_not_correct_and_has_the_error_as_its_reason() -> None:
    found = build(a_record(error="it broke", error_class="model", score=None, explanation="", parts={}))
    assert (found["correct"].value, found["correct"].rationale) == (False, "error: it broke")
    assert (found["error_class"].value, found["error_class"].rationale) == ("model", "it broke")
    bare = build(a_record(explanation=""))
    assert bare["correct"].rationale is None


def test_without_a_target_there_is_no_verdict() -> None:
    assert "correct" not in build(a_record(target=None, score=None)) and list(build(a_record(target=None, score=None)))


def test_parts_keep_their_names_unless_these_are_taken() -> None:
    found = build(a_record(parts={"correct": 0.5, "format_loss": 0.25, "format_ok": 0.1, "recall": 0.75}))
    assert (found["part_correct"].value, found["format_ok"].value, found["recall"].value) == (0.5, False, 0.75)
    assert found["part_format_ok"].value == 0.1


def test_judges_and_rules_are_told_apart_by_their_spans() -> None:
    record = a_record(extra_scores={"tone": ExtraScore(0.5, "fair"), "length": ExtraScore(None, error="too long")})
    record.trajectory += [judged("extra_scorers.tone")]
    found = build(record)
    assert (found["extra_tone"].source.source_type, found["extra_length"].source.source_type) == ("LLM_JUDGE", "CODE")
    assert (found["extra_tone"].rationale, found["extra_length"].rationale) == ("fair", "too long")
    assert found["correct"].source.source_type == "CODE"
    record.trajectory += [judged("JudgeScorer")]
    assert build(record)["correct"].source.source_type == "LLM_JUDGE"
    assert build(record)["correct"].source.source_id == "JudgeScorer"


def test_labels_of_people_are_feedback_with_their_name_and_note() -> None:
    on_question = HumanVerdict("1", "wrong_gold", "ada", "t", "night", "table 2", target="418", is_of_question=True)
    found = build(a_record(human=[on_question, HumanVerdict("2", "right", "bob", "t", "night")]))
    question, answer = found["human_review_question"], found["human_review"]
    assert (question.value, question.rationale) == ("wrong gold", "corrected to 418: table 2")
    assert (question.source.source_type, question.source.source_id) == ("HUMAN", "ada")
    assert (answer.value, answer.rationale, answer.source.source_id) == ("right", None, "bob")
