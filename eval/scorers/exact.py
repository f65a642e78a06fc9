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
    ignore_whitespace: bool = False  # all of it, within the text as well

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        if answer is None or not answer.strip():
            return Score(0.0, "expected a text; there is no answer")
        if self._normalise(answer) == self._normalise(target) or self._is_same_json(answer, target):
            return Score(1.0, "right: the text, as expected")
        return Score(
            0.0, f"expected a text, to the letter; the answer is another text{self._explain_near_miss(answer, target)}"
        )

    def _normalise(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text).strip()
        text = text.casefold() if self.ignore_case else text
        return "".join(text.split()) if self.ignore_whitespace else text

    def _is_same_json(self, answer: str, target: str) -> bool:
        if not target.lstrip().startswith(("{", "[")):
            return False
        try:
            values = [json.loads(self._normalise(text)) for text in (answer, target)]
        except (ValueError, RecursionError):
            return False
        return bool(values[0] == values[1])

    def _explain_near_miss(self, answer: str, target: str) -> str:
        lenient = ExactScorer(ignore_case=True, ignore_whitespace=True)
        alike = lenient._normalise(answer) == lenient._normalise(target)
        return " (it differs only in case or white space)" if alike else ""
