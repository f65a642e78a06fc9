"""The GAIA question scorer against verdicts that were worked out by hand from the rule's text."""

from collections.abc import Sequence

import pytest

from eval.scorers.gaia import question_scorer

Answers = Sequence[str | int | float | None]

VERDICTS: dict[str, tuple[Answers, Answers]] = {  # ground truth → answers that are right, and that are wrong
    # Rule 1: the ground truth is a number.
    "17": (
        ["17", "17.0", "017", "+17", " 17\n", "$17", "$ 17", "17 %", "%1$7,", "17.", 17.0, 17, "\uff11\uff17"],
        ["-17", "1 7", "€17", "17 km", "17;", "seventeen", "", None],
    ),
    "1000": (["1,000", "1,0,0,0", "1e3", "1_000"], ["1.000", "1__000"]),
    "1e3": (["1_000", "1000"], []),
    "42.": (["42"], []),
    "0.30": ([".3"], ["0.30000000000000004", "0.3000000001"]),
    "0": (["-0"], []),
    "16": ([], ["0x10"]),
    "\u0661\u0667": (["17"], []),
    "0.5": ([], ["½"]),
    "34": (["3,4"], ["3, 4"]),
    "inf": (["inf", "1e999", "no idea", None], ["17", "-inf", "nan"]),
    "-inf": ([], ["anything"]),
    "nan": ([], ["nan"]),
    # Rule 2: the ground truth is a list.
    "1,000": (["1,000", "1;0"], ["1000"]),
    "a, b": (["a,b", "A ,\tB", "a; b"], ["b, a", "a", "a, b, c", "a, b,", "a b", "a and b", "a, (b)", "a, b."]),
    "a, b.": (["a, b."], ["a, b"]),
    "New York, Los Angeles": (["new york; los angeles", "newyork,losangeles"], []),
    "1; 2; 3": (["1, $2, 3%", "1, 2.0, 3"], ["3, 2, 1", "1, two, 3", "1, 2.0000001, 3"]),
    "a, 2": (["a, 2.0"], []),
    "1, $2": (["1, $2"], ["1, 2"]),
    "10, 2": ([], ["1 0, 2"]),
    "inf, 2": (["whatever, 2"], []),
    "nan, 1": ([], ["nan, 1"]),
    "a,": (["a,", "a; "], ["a"]),
    ",": ([";"], [""]),
    "None, None": ([], [None]),
    # Rule 3: the ground truth is plain text.
    "Paris": (
        ["paris", " P a\xa0r\u2003i s ", '"Paris"'],
        ["Par\u200bis", "“Paris”", "Pàris", "the Paris", "Pariss"],
    ),
    "Paris France": (["Paris, France", "Paris; France!"], []),
    "17 km": (["17km"], ["17"]),
    "17!": (["1/7"], []),
    "17%": ([], ["17.0%"]),
    "$17": (["17"], ["$17.00"]),
    "None": (["none", None], [""]),
    "St.": (["St"], []),
    "": (["", "?!"], []),
    "straße": ([], ["strasse"]),
    # Python lower-cases a capital sigma by its neighbours: whitespace goes before the lower-casing, punctuation after.
    "λσδγ": (["ΛΣ ΔΓ"], ["ΛΣ-ΔΓ"]),
}


@pytest.mark.parametrize("truth", VERDICTS)
def test_the_rule_gives_the_verdicts_written_by_hand(truth: str) -> None:
    right, wrong = VERDICTS[truth]
    assert [answer for answer in right if not question_scorer(answer, truth)] == []
    assert [answer for answer in wrong if question_scorer(answer, truth)] == []
