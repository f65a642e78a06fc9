"""The assessments of an answer, by name, value, source and reason."""

from typing import Any

from eval.mlflow_export.assessments import build_assessments, list_assessment_names
from eval.mlflow_export.values import derive_assessment_id, derive_span_id, derive_trace_id, get_record_key
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


def test_every_assessment_is_of_the_question_and_of_the_moment_at_which_it_was_answered() -> None:
    record = a_record(wall_seconds=2.5)
    found = list(build_assessments(record, "mlflow-run", 7_000_000_000))
    key = get_record_key(record)
    assert [each.assessment_id for each in found] == [derive_assessment_id(key, each.name) for each in found]
    for each in found:
        assert (each.trace_id, each.span_id) == (derive_trace_id(key), derive_span_id(key, 0))
        assert (each.run_id, each.metadata) == ("mlflow-run", {"mlflow.assessment.sourceRunId": "mlflow-run"})
        assert (each.create_time_ms, each.last_update_time_ms) == (9_500, 9_500)


def test_the_source_of_each_assessment_is_named() -> None:
    verdict = HumanVerdict("1", "right", "", "t", "night", note="why")
    record = a_record(parts={"recall": 0.5}, extra_scores={"e" * 300: ExtraScore(0.5, "x")}, human=[verdict])
    sources = {each.name: (each.source.source_type, each.source.source_id) for each in build(record).values()}
    assert sources == {
        "expected_response": ("HUMAN", "dataset"), "correct": ("CODE", "scorer"), "recall": ("CODE", "scorer"),
        f"extra_{'e' * 243}…": ("CODE", "e" * 249 + "…"), "human_review": ("HUMAN", "unknown"),
        "error_class": ("CODE", "harness"),
    }  # fmt: skip
    assert build(record)["human_review"].rationale == "why"


def test_a_part_whose_name_is_taken_or_long_has_another() -> None:
    names = ("expected_response", "error_class", "p" * 251)
    assert list(build(a_record(parts=dict.fromkeys(names, 0.5))))[2:5] == [
        "part_expected_response", "part_error_class", "p" * 249 + "…"
    ]  # fmt: skip


def test_every_assessment_has_its_value_and_its_reason() -> None:
    extra = {
        "tone": ExtraScore(0.25, "harsh"), "over": ExtraScore(1.5, ""), "none": ExtraScore(None, "unused", "too long"),
    }  # fmt: skip
    verdicts = [
        HumanVerdict("1", "wrong_gold", "ada", "t", "night", target="", is_of_question=True),
        HumanVerdict("2", "right", "ada", "t", "night"),
    ]
    record = a_record(
        target="![x](y)", explanation="![e](y)", error="![w](y)", error_class="model", score=None,
        parts={"recall": float("inf"), "format_loss": 0.0}, extra_scores=extra, human=verdicts,
    )  # fmt: skip
    found = {name: (each.value, each.rationale) for name, each in build(record).items()}
    assert found == {
        "expected_response": ("!\u200b[x](y)", None), "correct": (False, "!\u200b[e](y)"),
        "recall": ("inf", None), "format_ok": (True, None), "extra_tone": (0.25, "harsh"), "extra_over": (1.0, None),
        "extra_none": (0.0, "too long"), "human_review_question": ("wrong gold", "corrected to "),
        "human_review": ("right", None), "error_class": ("model", "!\u200b[w](y)"),
    }  # fmt: skip


def test_a_judge_is_the_source_of_its_verdict_and_of_its_parts_and_its_name_is_cut() -> None:
    record = a_record(parts={"recall": 0.5, "format_loss": 0.5})
    record.trajectory += [judged("extra_scorers.tone"), judged("J" * 251), judged("Second")]
    sources = {name: (each.source.source_type, each.source.source_id) for name, each in build(record).items()}
    judge = ("LLM_JUDGE", "J" * 249 + "…")
    assert sources == {
        "expected_response": ("HUMAN", "dataset"), "correct": judge, "recall": judge, "format_ok": judge,
        "error_class": ("CODE", "harness"),
    }  # fmt: skip
