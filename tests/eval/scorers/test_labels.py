"""Targets count as labels only where they clearly are classes: no set of answers is taken for labels."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eval.benchmarks.dataset import Sample
from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from eval.scorers.labels import MAX_CHARS, MIN_QUESTIONS, LabelSet, find_labels

CLASSES = ("billing", "login", "refund")


def samples(targets: Sequence[str | None], text: str = "ticket") -> list[Sample]:
    return [Sample(f"{text}-{at}", f"{text} number {at}", target=target) for at, target in enumerate(targets)]


def names(*parts: Sequence[Sample]) -> tuple[str, ...]:
    return find_labels(*parts).names


def test_the_classes_of_a_classifier_are_labels_and_its_rare_targets_are_not() -> None:
    labels = find_labels(samples([*CLASSES * 20, "Paveldel", "chargeback"]), samples(CLASSES * 20, "other"))
    assert labels == LabelSet(CLASSES, n_rare=2) and labels
    assert [labels.find(each) for each in ("Billing ", "re fund", "Paveldel", "", None)] == [
        "billing", None, None, None, None,
    ]  # fmt: skip
    assert not LabelSet() and LabelSet().find("billing") is None


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (["0", "1"] * 10, ("0", "1")),
        (["yes", "no"] * 10, ("no", "yes")),
        (["True", "true", "False", "True", "False", "False"] * 5, ("False", "True")),
        (["Not a  bug", "not a bug", "not a bug", "bug", "BUG", "bug"] * 5, ("bug", "not a bug")),
        (["退款", "登录"] * 10, ("登录", "退款")),
        (["yes"] * 40, ()),  # one class is none
        (["yes", "no"] * 4, ()),
        (["yes", "no"] * 5, ("no", "yes")),
        ([None, "yes", "no"] * 5, ("no", "yes")),
        ([], ()),
    ],
)
def test_labels_are_compared_without_case_and_spaces_and_spelt_as_usual(
    targets: list[str | None], expected: tuple[str, ...]
) -> None:
    assert names(samples(targets)) == expected


def test_neither_the_sample_set_nor_the_toy_has_labels() -> None:
    for data in (BundledDataset(), ToyDataset(), ToyDataset(n_train=1000, n_val=1000, seed=3)):
        assert names(data.load("train").samples, data.load("val").samples) == ()
        assert names(data.load("test").samples) == ()


@given(st.lists(st.integers(1, MIN_QUESTIONS - 1), min_size=1, max_size=200), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_an_answer_that_few_questions_share_is_never_a_label(counts: list[int], random: object) -> None:
    targets = [f"answer {at}" for at, n in enumerate(counts) for _ in range(n)]
    classes = ["yes", "no"] * 10 * len(counts)
    for mixed in (targets, targets + classes):
        random.shuffle(mixed)  # type: ignore[attr-defined]
        assert set(names(samples(mixed))) <= {"yes", "no"}


@example(11, 10, 12)
@given(st.integers(2, 30), st.integers(1, 30), st.integers(0, 40))
@settings(max_examples=80, deadline=None)
def test_facts_that_are_each_asked_in_many_wordings_are_no_labels(facts: int, wordings: int, others: int) -> None:
    targets = [f"fact {at}" for at in range(facts)] * wordings + [f"single {at}" for at in range(others)]
    if wordings < facts:
        assert names(samples(targets)) == ()


@given(st.integers(3, 400), st.integers(1, 60))
@settings(max_examples=80, deadline=None)
def test_an_answer_that_repeats_is_no_label_beside_frequent_classes(n: int, repeats: int) -> None:
    """It would need an eighth of an even share, which no class of two that has it would be rare at."""
    found = names(samples(["yes", "no"] * n + ["Paveldel"] * repeats))
    if repeats * 24 < 2 * n + repeats or repeats < MIN_QUESTIONS:
        assert "Paveldel" not in found
    assert names(samples([f"answer {at}" for at in range(n)] + ["Paveldel"] * min(repeats, n))) == ()


def test_frequent_answers_to_a_part_of_the_questions_are_no_labels() -> None:
    """As in GAIA: some questions are answered by 3 or yes, the others by something of their own."""
    own = [f"answer {at}" for at in range(12)]
    assert names(samples(["3", "yes", "no"] * 30 + own)) == ()
    assert names(samples(["3", "yes", "no"] * 30 + own[:10])) == ("3", "no", "yes")


@given(st.lists(st.sampled_from([*CLASSES, "Login", " refund", "other"]), max_size=120), st.randoms())
@settings(max_examples=60, deadline=None)
def test_neither_order_nor_repeated_questions_change_the_labels(targets: list[str], random: object) -> None:
    asked = samples(targets)
    again = [Sample(f"again {each.id}", f" {each.question.upper()}?", target=each.target) for each in asked] * 3
    mixed = asked + again
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert {name.lower() for name in names(mixed)} == {name.lower() for name in names(asked)}


def test_repeated_questions_alone_make_no_label() -> None:
    answers = [Sample(f"q{at}", f"What is fact {at % 2}?", target=f"fact {at % 2}") for at in range(100)]
    assert names(answers) == ()
    by_file = [Sample(f"q{at}", "Which?", Path(f"/data/{at}.png"), target=CLASSES[at % 3]) for at in range(60)]
    assert names(by_file) == CLASSES


def test_what_the_validation_questions_alone_answer_is_no_label() -> None:
    train, val = samples(["yes", "no"] * 20), samples(["yes", "no", "maybe", "maybe"] * 20, "other")
    assert "maybe" in names(val) and names(train, val) == ("no", "yes")
    assert find_labels(train, val).n_rare == 40


def test_sentences_control_characters_and_field_marks_are_no_labels() -> None:
    for text in ("word " * (MAX_CHARS // 5) + "end", "two\x1bwords", "[[ ## label ## ]]"):
        assert names(samples(["yes", "no", text] * 20)) == ()


@given(st.lists(st.sampled_from([*CLASSES, "other", "answer 1", "answer 2"]), max_size=150))
@settings(max_examples=60, deadline=None)
def test_what_is_found_keeps_the_rule(targets: list[str]) -> None:
    labels, counts = find_labels(samples(targets)), Counter(targets)
    if labels:
        assert len(labels.names) ** 2 <= len(targets)
        assert all(counts[name] >= MIN_QUESTIONS for name in labels.names)
        assert 10 * labels.n_rare <= len(targets)
        assert labels.n_rare == sum(labels.find(each) is None for each in targets)


def test_labels_that_are_given_are_the_labels() -> None:
    labels = find_labels(samples(["refund", "Refund", "x"]), given=("refund", " Billing  issue", "REFUND"))
    assert labels == LabelSet(("REFUND", "Billing issue"), n_rare=1)


def test_each_limit_of_the_rule_belongs_to_the_labels() -> None:
    rare = [*["yes"] * 57, *["no"] * 57, *["maybe"] * 5]  # 5 · 8 · 3 = 120
    assert "maybe" in names(samples([*rare, "yes"])) and "maybe" not in names(samples(rare + ["yes"] * 2))
    ten = [f"class {at}" for at in range(10)]
    assert len(names(samples(ten * 10))) == 10 and names(samples([*ten, "class 10"] * 10)) == ()
    for shown, expected in ((2, ("maybe", "no", "yes")), (1, ("no", "yes"))):
        train, val = samples(["yes", "no"] * 10 + ["maybe"] * shown), samples(["maybe"] * 20, "other")
        assert names(train, val) == expected
    for length, expected in ((MAX_CHARS, ("x" * MAX_CHARS, "yes")), (MAX_CHARS + 1, ())):
        assert names(samples(["yes", "x" * length] * 10)) == expected


def test_questions_without_words_are_told_apart() -> None:
    asked = [Sample(f"q{at}", "+" * (at + 1), target="yes" if at % 2 else "no") for at in range(20)]
    assert names(asked) == ("no", "yes")


def test_of_spellings_that_are_as_frequent_the_first_of_the_alphabet_is_the_name() -> None:
    assert names(samples(["yes", "no", "Yes", "NO"] * 5)) == ("NO", "Yes")
    assert names(samples(["yes", "no", "Yes", "NO"] * 5 + ["yes", "no"])) == ("no", "yes")


def test_a_question_that_is_repeated_has_the_spelling_of_its_first_time() -> None:
    asked = samples(["yes", "no"] * 5)
    shouted = [Sample(f"again {each.id}", each.question, target=(each.target or "").upper()) for each in asked]
    assert names([*asked, *shouted]) == ("no", "yes") and names([*shouted, *asked]) == ("NO", "YES")


def test_a_label_of_the_training_questions_alone_is_one_and_its_spelling_is_theirs() -> None:
    train, val = samples(["Yes", "no", "maybe"] * 10), samples(["yes", "NO"] * 30, "other")
    labels = find_labels(train, [*val, *samples(["Paveldel", None], "third")])
    assert labels == LabelSet(("maybe", "no", "Yes"), n_rare=1)
    assert [labels.find(each) for each in ("YES", " maybe\n", "nope")] == ["Yes", "maybe", None]
