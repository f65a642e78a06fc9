"""Matching of a target in texts: what the system saw and said, and remarks that must not quote it.

matcher = TargetMatcher("1,234.5 km")
matcher.is_quoted_in("about 1234.5")               # True: it contains the number, in another form
matcher.matches("It is 1234.5 km.")                # True: right apart from its form
TargetMatcher("88450.42").matches("88450.4187")    # True: right apart from the rounding
LabelMatcher("refund", labels).matches("It is a Refund.")     # True: it names this label of a dataset and no other
"""

import re
import unicodedata
from contextlib import suppress
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cached_property

from eval.scorers.gaia import match_leniently
from eval.scorers.labels import LabelSet
from eval.scorers.numeric import parse_quantity

_SEPARATORS = re.compile(r"\s*[,;\n]\s*(?:and\b\s*)?|\s+and\s+", re.IGNORECASE)
_TOKEN = re.compile(r"[^\W_]+")
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_GROUPED = re.compile(r"(?<!\d)\d{1,3}(?:[ ,'\u2019]\d{3})+(?:\.\d+)?(?!\d)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_LONG = 6  # characters from which a text is also searched within words (inflected or compound)
_GAP = " "  # between the words of a text
NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_WORD_VALUES = {word: Decimal(value) for value, word in enumerate(NUMBER_WORDS)}
_ROUNDED_BY = Decimal("0.005")  # share of the value; a larger difference may be another value
_MIN_STRONG_CHARS, _MIN_STRONG_NUMBER = 4, 100  # shorter or smaller ones occur in any text by chance


class TargetMatcher:
    """A target with its normal forms: letters and digits only, its numbers, the elements of a list."""

    def __init__(self, target: str) -> None:
        self.text = target.strip()
        self.items = tuple(split_elements(self.text))
        parts = {self.text, *re.split("[,;]", self.text), *self.items}
        self._phrases = {normalise(form) for part in parts for form in (part, _ARTICLE.sub("", part.strip()))} - {""}
        self._numbers = {number for part in parts for number in extract_numbers(part)}

    def is_quoted_in(self, text: str) -> bool:
        """Return whether the text contains the target, an element or a number of it, in any form.

        Case, accents, punctuation, signs, thousands separators and number words do not hide it.
        """
        if not self._phrases:
            return self.text in text
        words = split_words(text)
        joined = words.replace(_GAP, "")
        return bool(self._numbers & extract_numbers(text)) or any(
            phrase in joined if len(phrase) >= _LONG else find_phrase(phrase, words) for phrase in self._phrases
        )

    @cached_property
    def is_weak(self) -> bool:
        """True if it is so short or small that finding it in a long text means nothing."""
        return all(map(_is_weak, self.items or (self.text,)))

    def is_within(self, text: str) -> bool:
        """Return whether the text contains all of it as whole words and numbers; False for a weak one."""
        return not self.is_weak and all(_holds(text, item) for item in self.items)

    def matches(self, text: str) -> bool:
        """Return whether the answer is right apart from its form: prose, unit, separators, rounding."""
        return match_leniently(text, self.text) or self.is_rounded(text)

    def is_contained_in(self, answer: str) -> bool:
        """Return whether at most the answer's form is wrong, as far as known."""
        if self.matches(answer) or self.is_reordered(answer):
            return True
        alone = len(self.items) == 1 and len(extract_numbers(answer)) <= max(1, len(self._numbers))
        return alone and self.is_within(answer)

    def is_rounded(self, text: str) -> bool:
        """Return whether the text is this number with another rounding."""
        said, right = parse_quantity(text), parse_quantity(self.text)
        if said is None or right is None or said.value == right.value:
            return False
        coarser, finer = sorted((said.value, right.value), key=_decimals)
        if _decimals(coarser) == _decimals(finer) or abs(coarser - finer) > _ROUNDED_BY * abs(coarser):
            return False
        step = Decimal(1).scaleb(-_decimals(coarser))
        return any(finer.quantize(step, mode) == coarser for mode in (ROUND_HALF_UP, ROUND_HALF_EVEN))

    def is_truncated(self, text: str) -> bool:
        """Return whether the text is this number with fewer digits."""
        said, right = parse_quantity(text), parse_quantity(self.text)
        return bool(said and right and self.is_rounded(text) and _decimals(said.value) < _decimals(right.value))

    def is_reordered(self, text: str) -> bool:
        """Return whether the text is this list in another order."""
        said = [normalise(item) for item in split_elements(text)]
        right = [normalise(item) for item in self.items]
        return len(right) > 1 and said != right and sorted(said) == sorted(right)


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
        """Return whether the answer names this label and no other; one that is part of another one does not count."""
        if (whole := self._labels.find(text)) is not None:
            return whole == self.text
        words = split_words(text)
        places = [(*span, name) for name, phrase in self._names.items() for span in find_phrase(phrase, words)]
        named = {
            name
            for start, end, name in places
            if not any(first <= start and end <= last and last - first > end - start for first, last, _ in places)
        }
        return named == {self.text}

    def is_contained_in(self, answer: str) -> bool:
        return self.matches(answer)


def split_elements(text: str) -> list[str]:
    """Return the elements of a list with any separators; a text that is no list is its only element."""
    if parse_quantity(text) is not None:  # with thousands separators
        return [text]
    return [item for item in _SEPARATORS.split(text.strip()) if normalise(item)]


def extract_numbers(text: str) -> set[Decimal]:
    """Return the numbers in a text without signs, words such as `three` included."""
    plain = unicodedata.normalize("NFKC", text)
    found = {Decimal(re.sub(r"[^\d.]", "", each)) for each in _GROUPED.findall(plain)}
    found |= {_WORD_VALUES[token] for token in _tokens(plain) if token in _WORD_VALUES}
    for each in _NUMBER.findall(plain):
        with suppress(InvalidOperation):  # digits of a script that Decimal does not read
            found.add(Decimal(each))
    return found


def _tokens(text: str) -> list[str]:
    spelt = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return _TOKEN.findall("".join(each for each in spelt if not unicodedata.combining(each)))


def normalise(text: str) -> str:
    return "".join(_tokens(text))


def split_words(text: str) -> str:
    return _GAP.join(_tokens(text))


def find_phrase(phrase: str, words: str) -> list[tuple[int, int]]:
    """Return the places of a phrase in words, as whole words; blanks within the phrase do not count."""
    if phrase not in words.replace(_GAP, ""):  # sooner than the pattern
        return []
    anywhere = f"{_GAP}?".join(map(re.escape, phrase))
    found = re.finditer(f"(?<![^{_GAP}])(?=({anywhere})(?![^{_GAP}]))", words)  # they may overlap
    return [each.span(1) for each in found]


def _is_weak(item: str) -> bool:
    said = parse_quantity(item)
    if said is not None:
        return said.value == said.value.to_integral_value() and abs(said.value) < _MIN_STRONG_NUMBER
    return len(normalise(item)) < _MIN_STRONG_CHARS


def _holds(text: str, item: str) -> bool:
    if (said := parse_quantity(item)) is not None:
        return abs(said.value) in extract_numbers(text)
    return bool(find_phrase(normalise(item), split_words(text)))


def _decimals(number: Decimal) -> int:
    return max(0, -int(number.as_tuple().exponent))
