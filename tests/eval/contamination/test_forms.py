"""Spellings of a target and passages of a question, each with what it proves."""

import pytest

from eval.contamination.forms import Form, are_common, derive_forms, extract_passages


def show(form: Form) -> str:
    """The form in one line: how it is looked for, its text, and whether it is weak or specific."""
    return f"{form.how}{form.n_words} {form.text}{' weak' * form.weak}{' specific' * form.specific}"


@pytest.mark.parametrize(
    ("target", "forms"),
    [
        ("1,234 metres", ["number1 1234", "word1 1234metres"]),
        ("17", ["number1 17 weak"]),
        ("the red lamp", ["word1 theredlamp", "word1 redlamp"]),
        ("A lamp", ["word1 alamp", "word1 lamp"]),
        ("an owl", ["word1 anowl", "word1 owl weak"]),
        ("red, green", ["word1 redgreen weak", "word1 red weak", "word1 green weak", "gram2 red green weak"]),
        (
            "red, blue; Marrow Point",
            [
                "word1 redbluemarrowpoint specific",
                "word1 red weak",
                "word1 blue weak",
                "word1 marrowpoint",
                "gram4 red blue marrow point specific",
            ],
        ),
        ("1,2", ["word1 12 weak", "number1 1 weak", "number1 2 weak", "gram2 1 2 weak"]),
        ("99.999", ["number1 99.999 specific"]),
        ("100", ["number1 100 weak"]),
        ("12345", ["number1 12345 specific"]),
        ("20000", ["number1 20000 weak"]),
        ("0.5", ["number1 0.5 weak"]),
        (
            "red and blue, Marrow",
            [
                "word1 redandbluemarrow specific",
                "word1 redandblue weak",
                "word1 marrow",
                "gram3 red blue marrow specific",
            ],
        ),
        ("x", ["word1 x weak"]),
        ("Point Marrow lamp lit", ["word1 pointmarrowlamplit specific"]),
        (
            "one two three four five six seven eight nine",
            [
                "word1 onetwothreefourfivesixseveneightnine weak specific",
                "gram8 one two three four five six seven eight specific",
                "gram8 two three four five six seven eight nine specific",
            ],
        ),
        ("x" * 200, [f"word1 {'x' * 200}"]),
        ("x" * 201, []),
        (
            "Orlen and Sons, Pavel, and Mora",
            [
                "word1 orlenandsonspavelandmora specific",
                "word1 orlenandsons specific",
                "word1 pavel",
                "word1 andmora",
                "gram4 orlen sons pavel mora specific",
            ],
        ),
    ],
)
def test_a_target_has_these_forms(target: str, forms: list[str]) -> None:
    assert [show(form) for form in derive_forms(target)] == forms


@pytest.mark.parametrize(
    ("question", "size", "passages"),
    [
        (
            "Which lamp was lit first at Marrow Point in 1874?",
            8,
            [
                "which lamp was lit first at marrow point",
                "lamp was lit first at marrow point in",
                "was lit first at marrow point in 1874",
            ],
        ),
        (
            "Which lamp was lit first at Marrow Point in 1874?",
            4,
            [
                "which lamp was lit",
                "lamp was lit first",
                "was lit first at",
                "lit first at marrow",
                "first at marrow point",
                "at marrow point in",
                "marrow point in 1874",
            ],
        ),
        ("Marrow Point lamp", 8, ["marrow point lamp"]),
        ("Marrow Point", 8, []),
        ("Marrow lamp lit", 4, []),
        ("what is the number of the file that is given here and there", 8, []),
    ],
)
def test_a_passage_has_a_distinctive_word(question: str, size: int, passages: list[str]) -> None:
    found = list(extract_passages(question, size))
    assert [form.text for form in found] == passages
    assert all(form.n_words == len(form.text.split()) for form in found)


@pytest.mark.parametrize(
    ("words", "max_digits", "common"),
    [
        (["the", "file"], 2, True),
        (["x"], 2, True),
        (["é"], 2, False),
        (["12"], 2, True),
        (["123"], 2, False),
        (["1234"], 4, True),
        (["12345"], 4, False),
        (["the", "marrow"], 2, False),
        ([], 2, True),
    ],
)
def test_words_of_any_prompt_are_common(words: list[str], max_digits: int, common: bool) -> None:
    assert are_common(words, max_digits) == common
