from dataclasses import replace

from eval.analysis.human_review.labels import (
    HumanLabel,
    LabelBook,
    describe_label,
    overrule_score,
)
from eval.runs.record import Record
from tests.eval.stored_run import answered


def label(record: Record, kind: str, when: str = "1", **parts: str) -> HumanLabel:
    found = describe_label(record, kind, file_sha256=parts.pop("file", None), who="ada", run="night", **parts)
    return replace(found, when=when)


def index(*labels: HumanLabel) -> LabelBook:
    return LabelBook(list(labels))


def test_a_label_on_an_answer_holds_for_the_same_answer_of_every_run_and_for_no_other() -> None:
    found = index(label(answered("q1", "18 apples"), "right"))
    same = replace(answered("q1", "18  Apples"), run_id="another", epoch=3)
    assert found.find(same, None).on_answer
    overrule_score(same, found.find(same, None))
    assert same.score == 1.0
    assert "17" not in same.explanation
    for other in (answered("q1", "19"), answered("q2", "18 apples"), answered("q1", "18 apples", gold="18")):
        assert not found.find(other, None).all, other
    assert not found.find(replace(answered("q1", "18 apples"), question="another text"), None).all
    assert not found.find(same, "digest of an attachment").all


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
