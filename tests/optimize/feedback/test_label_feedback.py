"""Feedback names the expected label, and still no answer that is none."""

import pytest

from eval.analysis.attribution.target_matcher import LabelMatcher
from eval.scorers.labels import LabelSet
from optimize.feedback.feedback import Expectation, build_feedback
from tests.optimize.simulated_runs import record, step

LABELS = LabelSet(("+", "-", "-1", "1", "Paris", "billing", "bug", "not a bug", "refund"))


def tell(target: str, answer: str, labels: LabelSet = LABELS, agent: str = "label") -> str:
    made = record(target, answer, [step("read", summary="x"), step("label", label=answer)], explanation="another text")
    return build_feedback(agent, made, Expectation.of(target, made.question, labels))


def test_the_expected_label_is_named_in_its_usual_spelling() -> None:
    for agent in ("read", "label"):
        assert "The expected label was 'refund'." in tell(" REFUND", "billing", agent=agent)
    assert "The expected label was" not in tell("refund", "refund"), "a right answer has nothing to learn"
    assert "right kind of answer, but not the right value" in tell("refund", "billing")
    for label, other in (("1", "-1"), ("bug", "not a bug"), ("bug", "-")):
        assert "value" in tell(label, other) and "The answer" not in tell(label, other), "another label, in good form"
    said = tell("refund", "I think that it is a refund.")
    assert "Prose stood around the answer" in said and "What it said was right; only its form was wrong." in said


def test_an_answer_that_is_no_label_is_never_named() -> None:
    for target in ("Paveldel", "Paris office", "bugs"):
        said = tell(target, "refund")
        assert target.lower() not in said.lower() and "label" not in said
        assert said == tell(target, "refund", LabelSet())
    assert "label" not in tell("refund", "billing", LabelSet())


@pytest.mark.parametrize(
    ("label", "answer", "right"),
    [
        ("bug", "BUG", True),
        ("bug", "not a bug", False),
        ("not a bug", "It is not a bug.", True),
        ("bug", "It is not a bug.", False),
        ("bug", "not a bug, or a bug", False),
        ("bug", "debugging", False),
        ("1", "-1", False),
        ("-1", "-1", True),
        ("1", "1.0", False),
        ("1", "11", False),
        ("+", "+", True),
        ("+", "-", False),
        ("refund", "", False),
    ],
)
def test_an_answer_is_right_in_content_if_it_names_this_label_alone(label: str, answer: str, right: bool) -> None:
    matcher = LabelMatcher(label, LABELS)
    assert (matcher.matches(answer), matcher.is_contained_in(answer)) == (right, right)
    assert not matcher.is_quoted_in(label) and not matcher.is_within(label), "no secret, and no evidence"
