"""A question's mark: the same for the same question, another for any other, and without its words."""

import re

from eval.benchmarks.fingerprint import compute_fingerprint


def test_the_same_words_have_the_same_mark_however_they_are_typed() -> None:
    assert compute_fingerprint("What is  2 + 3?\n") == compute_fingerprint("what is 2 + \uff13?")
    assert re.fullmatch("[0-9a-f]{16}", compute_fingerprint("What is 2 + 3?"))


def test_other_words_or_another_attachment_make_another_question() -> None:
    marks = [
        compute_fingerprint("How many rows?"),
        compute_fingerprint("How many columns?"),
        compute_fingerprint("How many rows?", "aa"),
        compute_fingerprint("How many rows?", "bb"),
    ]
    assert len(set(marks)) == 4


def test_a_text_that_is_no_unicode_has_a_mark() -> None:
    assert compute_fingerprint("\ud800") != compute_fingerprint("?")
