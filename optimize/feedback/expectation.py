"""The expected kind of answer, and the faults in form of the one given, without the target itself.

    expectation = Expectation.of("88450.42", "Express it in centimetres, rounded to two decimals, without the unit.")
    expectation.wordings[0]               # "Expected was a number with two decimals, without a unit."
    expectation.find_faults("88450.4187 cm")   # a unit next to the number; not rounded as asked

A label (`eval.scorers.labels`) is no secret and is named: "The expected label was 'refund'."

Every remark is a tuple of wordings, from the most specific to the vaguest: `optimize.feedback.feedback` uses the first
one that does not happen to quote the target. Remarks do say that the content is right where only the form is wrong: an
optimizer sees the system's output as well, uses training questions only, and the leak check finds what it copies.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from eval.analysis.attribution.label_matcher import LabelMatcher
from eval.analysis.attribution.target_matcher import NUMBER_WORDS, Remark, TargetMatcher, split_elements
from eval.scorers.labels import LabelSet
from eval.scorers.numeric import parse_quantity

Kind = Literal["label", "number", "list", "date", "decision", "word", "words", "text"]

_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}"
    rf"|(?:{_DAY} (?:of )?)?{_MONTH}(?:,? \d{{4}})?|{_MONTH} {_DAY}(?:,? \d{{4}})?",
    re.IGNORECASE,
)
_DECISION = re.compile(r"(?:yes|no|true|false)\b", re.IGNORECASE)
_LIST = re.compile("[,;]")
_THOUSANDS = re.compile(r"\d[ ,'\u2019\u00a0]\d{3}(?!\d)")
_DECIMALS = re.compile(r"(\w+)[ -]decimals?\b|(\w+) (?:decimal places?|places after)", re.IGNORECASE)
_NEAREST = {"tenth": 1, "hundredth": 2, "thousandth": 3, "integer": 0, "whole": 0, "unit": 0}
_ORDERED = re.compile(r"order|alphabetic|sorted|rank|ascending|descending|chronological|\bfrom the\b", re.IGNORECASE)
_MARKUP = re.compile(r"[*`_]{2}|`|^[\"'\u201c\u2018].*[\"'\u201d\u2019]$|\\boxed|^[\[({].*[\])}]$", re.DOTALL)
_FEW, _PROSE = 5, 3  # words of a short answer; words beyond the expected ones that make a sentence of it
_KINDS: dict[Kind, str] = {
    "date": "a date",
    "decision": "a plain decision between two possibilities",
    "word": "a single word or name",
    "words": "a few words",
    "text": "a text of some length",
}


@dataclass(frozen=True)
class Expectation:
    """The target of a question and its kind."""

    matcher: TargetMatcher
    question: str
    kind: Kind

    @classmethod
    def of(cls, target: str, question: str, labels: LabelSet | None = None) -> "Expectation":
        if labels is not None and (label := labels.find(target)) is not None:
            return cls(LabelMatcher(label, labels), question, "label")
        return cls(TargetMatcher(target), question, classify_answer(target))

    @property
    def wordings(self) -> Remark:
        """A sentence about the expected kind of answer."""
        if self.kind == "label":
            return (f"The expected label was {self.matcher.text!r}.",)
        if self.kind == "number":
            return (f"Expected was {self._number()}.", "Expected was a number.", "A numeric answer was expected.")
        if self.kind == "list":
            of_what = f" of {spell_number(len(self.matcher.items))} items"
            in_order = ", in the order that the question asks for" if _ORDERED.search(self.question) else ""
            return (
                f"Expected was a list{of_what}{in_order}, separated by commas.",
                f"Expected was a list{in_order}, separated by commas.",
                "Several elements were expected.",
            )
        return (f"Expected was {_KINDS[self.kind]}, with nothing around it.", f"Expected was {_KINDS[self.kind]}.")

    def is_content_right(self, answer: str) -> bool:
        """Return whether at most the form is wrong: prose, unit, separators, rounding, order of a list."""
        return self.matcher.is_contained_in(answer)

    def find_faults(self, answer: str | None) -> list[Remark]:
        """Return the faults in form."""
        said = (answer or "").strip()
        if not said:
            return [("There was no answer.", "The answer was missing.")]
        by_kind = {"label": self._label_faults, "number": self._number_faults, "list": self._list_faults}
        found = list(by_kind.get(self.kind, self._text_faults)(said))
        if _MARKUP.search(said):
            found.append(("The answer had quotation marks, brackets or other markup around it.",))
        return found

    def _label_faults(self, said: str) -> Iterator[Remark]:
        named = self.matcher.find_names(said) if isinstance(self.matcher, LabelMatcher) else set()
        if len(named) != 1 and not self.matcher.matches(said):
            yield ("The answer named several labels." if named else "The answer was none of the labels.",)
        elif len(said.split()) >= len(self.matcher.text.split()) + _PROSE:
            yield _PROSE_REMARK

    def _number(self) -> str:
        decimals = self.decimals_asked
        right = parse_quantity(self.matcher.text)
        if decimals is None:
            form = "a whole number" if right and right.value == right.value.to_integral_value() else "a decimal number"
        else:
            form = f"a number with {spell_number(decimals)} decimals" if decimals else "a whole number"
        return f"{form}, {'with its unit' if right and right.unit else 'without a unit'}"

    @property
    def decimals_asked(self) -> int | None:
        """Digits after the decimal point that the question asks for; None if it does not say."""
        if found := _DECIMALS.search(self.question):
            word = (found[1] or found[2]).lower()
            return int(word) if word.isdecimal() else NUMBER_WORDS.index(word) if word in NUMBER_WORDS else None
        asked = self.question.lower()
        return next((digits for word, digits in _NEAREST.items() if f"nearest {word}" in asked), None)

    def _number_faults(self, said: str) -> Iterator[Remark]:
        number = parse_quantity(said)
        if number is None:
            yield from _no_number(said)
        else:
            right = parse_quantity(self.matcher.text)
            if right and number.unit and not right.unit:
                yield ("A unit or currency sign stood beside the number.", "There was more than the bare number.")
            if right and right.unit and not number.unit:
                yield ("The unit was missing.",)
            if self._rounded_otherwise(said):
                yield ("The rounding was wrong: another number of decimals than asked for.", "The rounding was wrong.")
        if _THOUSANDS.search(said) and not _THOUSANDS.search(self.matcher.text):
            yield ("The number had thousands separators.", "The digits were written in groups.")

    def _rounded_otherwise(self, said: str) -> bool:
        if self.matcher.is_rounded(said):
            return True
        number, asked = parse_quantity(said), self.decimals_asked
        return number is not None and asked is not None and -int(number.value.as_tuple().exponent) > asked

    def _list_faults(self, said: str) -> Iterator[Remark]:
        given = _LIST.split(said)
        if len(split_elements(said)) != len(self.matcher.items):
            yield ("The number of items was not the expected one.", "The count was wrong.")
        if re.search(r"\band\b|&|\n", said) and not re.search(r"\band\b|&", self.matcher.text):
            yield ("The list had other separators than commas, such as `and` or line breaks.", "The separators differ.")
        if self.matcher.is_reordered(said):
            yield ("The items were right, but the list order was wrong.", "The sequence was wrong.")
        longest = max((len(item.split()) for item in self.matcher.items), default=1)
        if any(len(item.split()) > longest + _PROSE for item in given):
            yield _PROSE_REMARK

    def _text_faults(self, said: str) -> Iterator[Remark]:
        words, expected = len(said.split()), len(self.matcher.text.split())
        if self.kind != "text" and parse_quantity(said) is not None:
            yield ("The answer was a number.", "The answer was numeric.")
        elif self.kind != "text" and words >= expected + _PROSE:
            yield _PROSE_REMARK
        elif self.kind in ("word", "words") and _LIST.search(said):
            yield ("The answer was a list.", "The answer had several elements.")
        elif self.kind in ("word", "words") and words != expected and (words == 1 or expected == 1):
            yield ("The answer had another number of words than expected.", "The length differs.")
        if self.kind == "date" and classify_answer(said) != "date":
            yield ("The answer was not a date.", "The answer was of another kind.")
        if self.kind == "decision" and not _DECISION.match(said):
            yield ("The answer was not a plain decision.", "The answer was of another kind.")


_PROSE_REMARK = (
    "Prose stood around the answer, where the bare answer was expected.",
    "There were words around it that do not belong to it.",
)


def classify_answer(text: str) -> Kind:
    text = text.strip()
    if parse_quantity(text) is not None:
        return "number"
    if _DATE.fullmatch(text):
        return "date"
    if _DECISION.fullmatch(text):
        return "decision"
    if _LIST.search(text):
        return "list"
    words = len(text.split())
    return "word" if words == 1 else "words" if words <= _FEW else "text"


def spell_number(number: int) -> str:
    return NUMBER_WORDS[number] if number < len(NUMBER_WORDS) else str(number)


def _no_number(said: str) -> Iterator[Remark]:
    found = re.findall(r"\d[\d., ]*", said)
    if not found:
        yield ("Words stood where a number was expected.", "The answer was not numeric.")
    elif len(found) > 1:
        yield ("The answer held several numbers, where a single bare number was expected.",)
    else:
        yield _PROSE_REMARK
