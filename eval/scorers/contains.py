"""Scorer: the target somewhere within an answer in sentences, as whole words and whole numbers.

ContainsScorer()("?", "It is Paris, in France.", "paris").value      # 1.0
ContainsScorer()("?", "17.5", "17").value                            # 0.0: another number
"""

import re
import unicodedata
from dataclasses import dataclass

from eval.scorers.score import Score, Scorer

_TYPOGRAPHIC = str.maketrans("\u2019\u2018\u201c\u201d\u2212\u2013", "''\"\"--")  # quotes; minus and en dash
# No letter or digit may touch the target. A number must not be part of another: `17` is not in 17.5 or -17, while the
# hyphen of `3-17` only joins two numbers.
_BEFORE = r"(?<!\w)"
_AFTER = r"(?!\w)"
# No digit, sign, point, thousands mark or fraction bar may continue the number on either side.
_BEFORE_DIGIT = (
    r"(?<!\w)(?<!\d[.,/\u2044])(?<!\d[ '](?=\d{3}(?!\d)))(?<!(?<!\w)-)(?<!-[$\u20ac\u00a3\u00a5])(?<!(?<!\w)\.)"
)
_AFTER_DIGIT = r"(?!\w)(?![.,]\d)(?![ ']\d{3}(?!\d))(?![/\u2044])"
_NUMBER_FIRST = re.compile(r"[-+.$\u20ac\u00a3\u00a5\u2212]*\d")


@dataclass
class ContainsScorer(Scorer):
    """Compares both texts in compatibility form, lower case, single spaces, plain quotes and dashes."""

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        if answer is None or not answer.strip():
            return Score(0.0, "expected an answer that holds a given text; there is no answer")
        if _build_pattern(_normalise(target)).search(_normalise(answer)):
            return Score(1.0, "right: the answer holds the expected text")
        return Score(0.0, "expected an answer that holds a given text as whole words; this one does not")


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().translate(_TYPOGRAPHIC).split())


def _build_pattern(target: str) -> re.Pattern[str]:
    first, last = target[:1], target[-1:]
    before = _BEFORE_DIGIT if _NUMBER_FIRST.match(target) else _BEFORE if re.match(r"\w", first) else ""
    after = _AFTER_DIGIT if last.isdigit() else _AFTER if re.match(r"\w", last) else ""
    return re.compile(before + re.escape(target) + after)
