"""Scorer: GAIA's official rule, and a lenient one that separates wrong answers from wrongly formatted ones.

Source of the rule: `scorer.py` of the GAIA leaderboard (https://huggingface.co/spaces/gaia-benchmark/leaderboard).
Its quirks are kept on purpose, since scores are compared with published ones: the gold `1,000` is a list of two
elements, and the gold `inf` matches any text that is not a number.

    question_scorer("$1,234.50", "1234.5")                      # True
    question_scorer("The answer is 17.", "17")                  # False
    match_leniently("The answer is 17.", "17")                  # True: a format loss
"""

import re
import string
import unicodedata
from dataclasses import dataclass

from eval.scorers.numeric import parse_quantity
from eval.scorers.score import Score, Scorer

_LIST_SEPARATORS = "[,;]"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def question_scorer(model_answer: object, ground_truth: str) -> bool:
    """Return whether the answer is right by the official rule; no answer (None) is scored as the text `None`.

    The name is that of the official code.
    """
    answer = str(model_answer)
    if _is_number(ground_truth):
        return _as_number(answer) == float(ground_truth)
    if re.search(_LIST_SEPARATORS, ground_truth):
        answers, golds = re.split(_LIST_SEPARATORS, answer), re.split(_LIST_SEPARATORS, ground_truth)
        return len(answers) == len(golds) and all(map(_same_element, answers, golds))
    return _remove_spaces(answer).translate(_NO_PUNCTUATION) == _remove_spaces(ground_truth).translate(_NO_PUNCTUATION)


def _same_element(answer: str, gold: str) -> bool:
    if _is_number(gold):
        return _as_number(answer) == float(gold)
    return _remove_spaces(answer) == _remove_spaces(gold)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_number(text: str) -> float:
    try:
        return float(re.sub("[$%,]", "", text))
    except ValueError:
        return float("inf")


def _remove_spaces(text: str) -> str:
    return re.sub(r"\s", "", text).lower()


# The lenient rule. It only feeds a diagnostic, so it errs towards calling an answer wrong.

_MAX_LENIENT_CHARS = 2000  # a longer answer is not a slip of format
_PROSE = re.compile(
    r"^.*\banswer\b[^.:=\n]{0,60}?(?:\bis\b|\bare\b|\bwas\b|\bwould be\b|[:=])"
    r"|^(?:it|there|they|this|that)\s+(?:is|are|was|were)\b",
    re.IGNORECASE | re.DOTALL,
)
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?!and\b)", re.IGNORECASE)
_MINUS_SIGNS = re.compile("[\N{MINUS SIGN}\N{EN DASH}\N{EM DASH}\N{FIGURE DASH}\N{HYPHEN}\N{NON-BREAKING HYPHEN}]")
_OPENING = " \t\r\n\"'`*_:[](){}\u2018\u2019\u201c\u201d\u00ab\u00bb"  # typographic quotes at the end
_CLOSING = _OPENING + "."  # never at the front: `.5` is a number
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:[, ]\d{3})+)(?![\d,])")
_LENIENT_SEPARATORS = re.compile(r"\s*(?:[,;&\n]\s*(?:and\b)?|\band\b)\s*", re.IGNORECASE)


def match_leniently(answer: object, ground_truth: str) -> bool:
    """Return whether the answer is right apart from how it is written.

    Forgiven: prose before the answer, quotes, articles, trailing periods, a unit, thousands separators, typographic
    minus signs, `and` between the elements of a list. Not forgiven: another order, another unit, another value.
    """
    if answer is None or len(str(answer)) > _MAX_LENIENT_CHARS:
        return False
    said, gold = _unwrap_answer(str(answer)), _unwrap_answer(ground_truth)
    if _same_lenient_scalar(said, gold) or _same_lenient_list(said, gold):
        return True
    # `1,000` may be a number or two elements of a list.
    return _same_lenient_list(_join_thousands(said), _join_thousands(gold))


def _join_thousands(text: str) -> str:
    return _THOUSANDS.sub(lambda found: found[1] + re.sub("[, ]", "", found[2]), text)


def _unwrap_answer(text: str) -> str:
    """Return the text without what people wrap around an answer."""
    spelt = _MINUS_SIGNS.sub("-", unicodedata.normalize("NFKC", text))
    return _ARTICLE.sub("", _strip_marks(_PROSE.sub("", _strip_marks(spelt), count=1)))


def _strip_marks(text: str) -> str:
    return text.lstrip(_OPENING).rstrip(_CLOSING)


def _same_lenient_list(answer: str, gold: str) -> bool:
    answers, golds = _LENIENT_SEPARATORS.split(answer), _LENIENT_SEPARATORS.split(gold)
    return len(golds) > 1 and len(answers) == len(golds) and all(map(_same_lenient_scalar, answers, golds))


def _same_lenient_scalar(answer: str, gold: str) -> bool:
    said, right = (parse_quantity(_strip_marks(text)) for text in (answer, gold))
    if said and right:
        return said.value == right.value and right.unit in ("", said.unit)
    if said or right:
        return False
    words = _words(answer)
    return bool(words) and words == _words(gold)


def _words(text: str) -> str:
    return _remove_spaces(_ARTICLE.sub("", _strip_marks(text))).translate(_NO_PUNCTUATION)


@dataclass(frozen=True)
class GaiaScorer(Scorer):
    """Scores 1 or 0 by the official rule; the part `format_loss` is 1 where only the format was wrong."""

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        kind = "a number" if _is_number(target) else "a list" if re.search(_LIST_SEPARATORS, target) else "a text"
        if question_scorer(answer, target):
            return Score(1.0, f"right: {kind}, as expected", {"format_loss": 0.0})
        lost, why = match_leniently(answer, target), _explain_wrong(kind, answer, target)
        if lost:
            why += (
                "; its content is right and only its format is wrong: give the bare answer, without a sentence around "
                "it, units, thousands separators, quotes or a final period"
            )
        return Score(0.0, why, {"format_loss": float(lost)})


def _explain_wrong(kind: str, answer: str | None, target: str) -> str:
    """Explain in words and without the target: an optimizer reads this, and must not learn answers from it."""
    if answer is None or not answer.strip():
        return f"expected {kind}; there is no answer"
    if kind == "a number":
        parses = _as_number(answer) != float("inf")
        return f"expected a number; the answer {'is another number' if parses else 'does not parse as one'}"
    if kind == "a text":
        return "expected a text; the answer is another text"
    answers, golds = re.split(_LIST_SEPARATORS, answer), re.split(_LIST_SEPARATORS, target)
    found = f"the answer has too {'few' if len(answers) < len(golds) else 'many'} elements"
    if len(answers) == len(golds):
        pairs = enumerate(zip(answers, golds, strict=True), start=1)
        wrong = [str(place) for place, pair in pairs if not _same_element(*pair)]
        found = f"these elements of the answer differ, counted from 1: {', '.join(wrong)}"
    return f"expected a list separated by commas or semicolons; {found}"
