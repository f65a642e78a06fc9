"""A question's mark: the same for the same question, another for any other, and without its words."""

import re

from eval.benchmarks.fingerprint import question_mark


def test_the_same_words_have_the_same_mark_however_they_are_typed() -> None:
    assert question_mark("What is  2 + 3?\n") == question_mark("what is 2 + \uff13?")
    assert re.fullmatch("[0-9a-f]{16}", question_mark("What is 2 + 3?"))


def test_other_words_or_another_attachment_make_another_question() -> None:
    marks = [
        question_mark("How many rows?"),
        question_mark("How many columns?"),
        question_mark("How many rows?", "aa"),
        question_mark("How many rows?", "bb"),
    ]
    assert len(set(marks)) == 4


def test_a_text_that_is_no_unicode_has_a_mark() -> None:
    assert question_mark("\ud800") != question_mark("?")
