"""A question's mark: the same for the same question, another for any other, and without its words.

And at which number of common words two questions become near-duplicates; `test_near_duplicates.py` has the rest.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import (
    MAX_QUESTIONS,
    build_identity_keys,
    compute_dataset_digest,
    compute_file_digest,
    compute_fingerprint,
    compute_unordered_digest,
    find_near_duplicates,
    format_pairs,
    normalise_question,
)


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


def test_a_mark_is_the_beginning_of_a_digest_over_the_text_and_the_attachment() -> None:
    assert compute_fingerprint(" What\u00a0IS it? ") == sha256(b"what is it?").hexdigest()[:16]
    assert compute_fingerprint("What is it?", "aa") == sha256(b"what is it?\naa").hexdigest()[:16]
    assert compute_fingerprint("What is it?", "") == compute_fingerprint("What is it?", None)
    assert normalise_question(" \uff21\tSTRASSE \n stra\u00dfe ") == "a strasse strasse"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_bytes(b"a,b\n")
    return tmp_path / "table.csv"


def test_a_dataset_s_digest_is_over_what_decides_its_answers(table: Path) -> None:
    content = sha256(b"a,b\n").hexdigest()
    plain, full = Sample("1", "a\ud800?"), Sample("2", "b?", table, "7", "3", {"tag": "x"}, {"field": "b?"})
    lines = [
        b'["1", "a\\ud800?", null, null]\n',
        f'["2", "b?", "7", "{content}", {{"field": "b?"}}]\n'.encode(),
    ]
    assert compute_dataset_digest([plain, full]) == sha256(b"".join(lines)).hexdigest()
    assert compute_dataset_digest([full, plain]) == sha256(b"".join(lines[::-1])).hexdigest()
    assert compute_unordered_digest([full, plain]) == sha256(b"".join(lines)).hexdigest()
    assert compute_unordered_digest([plain, full]) == sha256(b"".join(lines)).hexdigest()
    assert (compute_file_digest(plain), compute_file_digest(full)) == (None, content)
    with pytest.raises(FileNotFoundError):
        compute_file_digest(Sample("3", "c?", table.with_name("missing")))


def test_attachments_are_compared_only_where_the_texts_are_equal(table: Path) -> None:
    content = sha256(b"a,b\n").hexdigest()
    other = Sample("other", "Another?", table.with_name("is never read"))
    samples = [Sample("1", "How  many ROWS?", table), Sample("2", "how many rows?"), other]
    assert build_identity_keys(samples) == {
        "1": ("how many rows?", content),
        "2": ("how many rows?", None),
        "other": ("another?", None),
    }


def words(begin: str, *numbers: int) -> str:
    return " ".join(f"{begin}{number}" for number in numbers)


def is_pair(one: str, other: str, targets: Sequence[str | None] = ("7", "7"), common: Sequence[str] = ()) -> bool:
    samples = [Sample(id, text, target=target) for id, text, target in zip("ba", (one, other), targets, strict=True)]
    found = find_near_duplicates(samples, common)
    assert found in ([], [("a", "b")]) and find_near_duplicates(samples[::-1], common) == found
    return bool(found)


@pytest.mark.parametrize(("n_same", "found"), [(7, False), (8, True), (9, True)])
def test_three_fifths_of_the_shorter_question_s_runs_are_needed(n_same: int, found: bool) -> None:
    """12 words have 10 runs of three, and 8 words in a row have six of them."""
    same = words("w", *range(n_same))
    assert is_pair(f"{same} {words('a', *range(12 - n_same))}", f"{same} {words('b', *range(90))}") is found


@pytest.mark.parametrize(("n_words", "found"), [(5, False), (6, True)])
def test_with_the_same_target_four_runs_are_needed(n_words: int, found: bool) -> None:
    same = words("w", *range(n_words))
    assert is_pair(f"{same} a", f"{same} b") is found
    assert not is_pair(f"{same} a", f"{same} b", ("7", "8"))
    assert not is_pair(f"{same} a", f"{same} b", ("7", None))
    assert is_pair(f"{same} a", f"{same} b", (None, "")) is found


@pytest.mark.parametrize(
    ("one", "other", "common", "found"),
    [
        ("Sum up 12", "sum up 12?", (), True),
        ("Sum up", "sum: up!", (), True),
        ("Sum up 12", "sum up 12?", ("sum", "up"), False),
        ("Sum up 12", "sum up 12?", ("sum",), True),
        ("Sum up 12", "sum up 13", (), False),
        ("Sum up the 12", "sum up a 12 13", ("the", "a"), False),
    ],
)
def test_with_other_targets_two_distinctive_words_are_needed_and_they_must_be_the_same(
    one: str, other: str, common: Sequence[str], found: bool
) -> None:
    assert is_pair(one, other, ("7", "8"), common) is found


@pytest.mark.parametrize(
    ("targets", "found"),
    [
        (("1,874.", " 1874"), True),
        (("3.5", "35"), False),
        (("R\u00e9sum\u00e9!", "resume"), True),
        (("a..", "A"), True),
        ((".a", "a"), False),
    ],
)
def test_targets_are_the_same_without_punctuation_accents_and_case(targets: tuple[str, str], found: bool) -> None:
    assert is_pair(f"{words('w', *range(6))} a", f"{words('w', *range(6))} b", targets) is found


def test_runs_that_too_many_questions_share_count_for_neither_side() -> None:
    """Two questions that share three fifths of what is left are a pair, if the rest stands in eleven questions."""
    filling, same = words("f", *range(40)), words("w", *range(12))
    ask = [
        Sample(f"q{n}", f"{same if n < 2 else ''} {words(f'x{n}y', *range(4))} {filling}", target="7")
        for n in range(11)
    ]
    assert find_near_duplicates(ask, ()) == [("q0", "q1")]
    assert len(find_near_duplicates(ask[:MAX_QUESTIONS], ())) == MAX_QUESTIONS * (MAX_QUESTIONS - 1) // 2


def test_up_to_three_pairs_are_shown() -> None:
    pairs = [("a", "b"), ("c", "d"), ("e", "f")]
    assert format_pairs(pairs) == "3 pairs of questions (a and b, c and d, e and f)"
    assert format_pairs([*pairs, ("g", "h")]) == "4 pairs of questions (a and b, c and d, e and f, …)"
