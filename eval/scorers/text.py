"""Scorers of texts: the same text, the target somewhere within an answer, and the share of words in common.

ExactScorer()("?", "Paris", "paris").value                                 # 0.0
ContainsScorer()("?", "It is Paris, in France.", "paris").value            # 1.0
ContainsScorer()("?", "17.5", "17").value                                  # 0.0: another number
TokenF1Scorer()("?", "The Eiffel Tower, Paris", "Eiffel tower").value      # 0.8: 2 of 3 and 2 of 2 words
"""

import json
import re
import string
import unicodedata
from collections import Counter
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
_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass
class ExactScorer(Scorer):
    """The keys of `conf/scorer/exact.yaml`: the same text, character by character.

    White space at both ends never counts, nor how Unicode composes accents; JSON objects and lists count by value.
    """

    ignore_case: bool = False

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        if answer is None or not answer.strip():
            return Score(0.0, "expected a text; there is no answer")
        said, gold = self._normalise(answer), self._normalise(target)
        if said == gold or _is_same_json(said, gold):
            return Score(1.0, "right: the text, as expected")
        is_near = "".join(said.casefold().split()) == "".join(gold.casefold().split())
        near = " (it differs only in case or white space)" if is_near else ""
        return Score(0.0, f"expected a text, to the letter; the answer is another text{near}")

    def _normalise(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text).strip()
        return text.casefold() if self.ignore_case else text


def _is_same_json(said: str, gold: str) -> bool:
    if not gold.startswith(("{", "[")):
        return False
    try:
        return bool(json.loads(said) == json.loads(gold))
    except (ValueError, RecursionError):
        return False


@dataclass
class ContainsScorer(Scorer):
    """The target as whole words, in compatibility form, lower case, with single spaces, plain quotes and dashes."""

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


@dataclass
class TokenF1Scorer(Scorer):
    """The share of words in common, 0 to 1; normalisation and formula are those of SQuAD's official script.

    That is evaluate-v2.0.py (https://arxiv.org/abs/1806.03822).
    """

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        """Score one answer; two texts without any word are compared as wholes."""
        text = (answer or "").strip()
        if not text:
            return Score(0.0, "there is no answer", {"precision": 0.0, "recall": 0.0})
        said, wanted = split_words(text), split_words(target)
        if said and wanted:
            common = (Counter(said) & Counter(wanted)).total()
            precision, recall = common / len(said), common / len(wanted)
        else:
            precision = recall = float(text.casefold() == target.strip().casefold())
        value = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        word = "right" if value == 1 else "partly right" if value else "wrong"
        shares = f"{precision:.0%} of the answer's words are expected, {recall:.0%} of the expected ones are in it"
        return Score(value, f"{word}: {shares}", {"precision": precision, "recall": recall})


def split_words(text: str) -> list[str]:
    """Return the words of a text as SQuAD's script compares them."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()
