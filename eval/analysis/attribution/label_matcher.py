"""Matching of a target that is one of a dataset's labels: it is no secret, and as evidence worth nothing.

LabelMatcher("refund", labels).matches("It is a Refund.")       # True: it names this label and no other
"""

from functools import cached_property

from eval.analysis.attribution.target_matcher import TargetMatcher, find_phrase, normalise, split_words
from eval.scorers.labels import LabelSet


class LabelMatcher(TargetMatcher):
    """A target that is one of a dataset's labels: no secret, and as evidence worth nothing."""

    def __init__(self, label: str, labels: LabelSet) -> None:
        super().__init__(label)
        self._labels = labels
        self._names = {name: phrase for name in labels.names if (phrase := normalise(name))}

    @cached_property
    def is_weak(self) -> bool:
        return True

    def is_quoted_in(self, text: str) -> bool:
        """Return False: a text may name it."""
        return False

    def matches(self, text: str) -> bool:
        """Return whether the answer is this label apart from its form, and names no other."""
        return self.find_names(text) == {self.text}

    def is_contained_in(self, answer: str) -> bool:
        return self.matches(answer)

    def find_names(self, text: str) -> set[str]:
        """Return the labels in a text; one that is part of another label there does not count."""
        if (whole := self._labels.find(text)) is not None:
            return {whole}
        words = split_words(text)
        places = [(*span, name) for name, phrase in self._names.items() for span in find_phrase(phrase, words)]
        return {
            name
            for start, end, name in places
            if not any(first <= start and end <= last and last - first > end - start for first, last, _ in places)
        }
