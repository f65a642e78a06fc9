"""Scorer: the share of words that answer and target have in common, as a token F1 from 0 to 1.

Normalisation and formula are those of SQuAD's official script, evaluate-v2.0.py (https://arxiv.org/abs/1806.03822).

    TokenF1Scorer()("?", "The Eiffel Tower, Paris", "Eiffel tower").value      # 0.8: 2 of 3 and 2 of 2 words
"""

import re
import string
from collections import Counter
from dataclasses import dataclass

from eval.scorers.score import Score, Scorer

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass
class TokenF1Scorer(Scorer):
    """Without options."""

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
