"""Scorer: the same text, character by character.

ExactScorer()("?", "Paris", "paris").value                       # 0.0
ExactScorer(ignore_case=True)("?", "Paris", "paris").value       # 1.0
"""

import json
import unicodedata
from dataclasses import dataclass

from eval.scorers.score import Score, Scorer


@dataclass
class ExactScorer(Scorer):
    """The keys of `conf/scorer/exact.yaml`.

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
