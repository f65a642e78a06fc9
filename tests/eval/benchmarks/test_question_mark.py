"""A question's mark: the same for the same question, another for any other, and without its words."""

import re

from eval.benchmarks.fingerprint import fingerprint


def test_the_same_words_have_the_same_mark_however_they_are_typed() -> None:
    assert fingerprint("What is  2 + 3?\n") == fingerprint("what is 2 + \uff13?")
    assert re.fullmatch("[0-9a-f]{16}", fingerprint("What is 2 + 3?"))


def test_other_words_or_another_attachment_make_another_question() -> None:
    marks = [
        fingerprint("How many rows?"),
        fingerprint("How many columns?"),
        fingerprint("How many rows?", "aa"),
        fingerprint("How many rows?", "bb"),
    ]
    assert len(set(marks)) == 4


def test_a_text_that_is_no_unicode_has_a_mark() -> None:
    assert fingerprint("\ud800") != fingerprint("?")
