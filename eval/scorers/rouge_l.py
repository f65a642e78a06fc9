"""Scorer: the longest common subsequence of words of answer and target, as an F-measure from 0 to 1 (ROUGE-L).

    RougeLScorer()("?", "police killed the gunman", "the gunman killed police").value      # 0.5: 2 of 4 words in order

C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004), section 3.1, with recall and precision of
the same weight, no stemming, and each text as one sequence. Words are runs of letters, digits and underscores in any
script, without case; Google's `rouge_score` knows ASCII only and is otherwise the same.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from eval.scorers.score import Score, Scorer
from eval.scorers.token_f1 import score_overlap

_WORD = re.compile(r"\w+")


@dataclass
class RougeLScorer(Scorer):
    """Without options."""

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        return score_overlap(answer, target, _split_words, measure_common_subsequence, "words in order")


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def measure_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, with one row of the table in the bits of a number.

    H. Hyyrö, "Bit-Parallel LCS-length Computation Revisited" (2004): 10,000 words against as many take milliseconds, so
    that a long answer does not delay other samples.
    """
    places: defaultdict[str, int] = defaultdict(int)
    for place, word in enumerate(first):
        places[word] |= 1 << place
    full = (1 << len(first)) - 1
    row = full
    for word in second:
        matches = row & places.get(word, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(first) - row.bit_count()
