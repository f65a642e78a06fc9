"""Other spellings of a target in a prompt: number words, digits apart, and the plural or singular of a word.

[number.text for number in find_spelt_numbers(Reading("forty-eight hundred and twelve"))]      # ["4812"]
[number.text for number in find_spelt_numbers(Reading("4-8-1-2, or 4 8 1 2"))]                 # ["4812", "4812"]
derive_spellings("a brass lantern")      # the forms of the target, and the run of letters brasslanterns
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from eval.contamination.forms import LIST, SHORT, Form, are_common, derive_forms, derive_whole_forms, vary_article
from eval.contamination.text import Piece, Reading, normalise_number

_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    *("ten", "eleven", "twelve", "thirteen", "fourteen"),
    *("fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_SMALL = {word: value for value, word in enumerate((*_UNITS, *_TEENS))}
_TEN_NAMES = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_TENS = {word: value * 10 for value, word in enumerate(_TEN_NAMES, start=2)}
_SCALES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_DIGITS = {**{word: value for value, word in enumerate(_UNITS)}, "oh": 0}
_MULTIPLIERS = {"hundred", *_SCALES}
_NUMBER_WORDS = {*_SMALL, *_TENS, *_MULTIPLIERS, "oh"}
_MAX_DIGITS = 15
_APART = re.compile(r"(?<![\w.,])(?P<digits>\d+(?:[ _\u2010-\u2015\u2212-]\d+)+)(?P<fraction>\.\d+)?(?![^\W_]|[.,]?\d)")
_DOTTED = re.compile(r"(?<![\w.,])(?P<digits>\d(?:[.\u00b7/]\d){2,})(?P<fraction>)(?![^\W_]|[.,]?\d)")
_LETTERS = re.compile(r"(?<![^\W_])\d+(?:[oil]+\d+)+(?![^\W_])")
_AS_DIGITS = str.maketrans("oil", "011")
_IRREGULAR = dict(
    each.split()
    for each in ("man men", "woman women", "child children", "foot feet", "tooth teeth", "mouse mice", "goose geese")
)
_IRREGULAR |= {plural: singular for singular, plural in _IRREGULAR.items()}


def derive_spellings(target: str) -> Iterator[Form]:
    """Yield the forms of a target, of the number that its words are, and of its last word's plural or singular."""
    yield from derive_forms(target)
    words = Reading(target).words
    if (value := parse_cardinal([word.text for word in words])) is not None:
        yield from derive_whole_forms(str(value))
    for item in (target, *LIST.split(target)):
        for *before, last in vary_article([word.text for word in Reading(item).words]):
            for other in inflect(last):
                run = "".join([*before, other])
                yield Form("word", run, weak=len(run) <= SHORT or are_common([*before, other]))


def inflect(word: str) -> Iterator[str]:
    """Yield the plural and the singular that an English word may have; nothing for a short one."""
    if not (word.isascii() and word.isalpha()) or len(word) <= SHORT:
        return
    if word in _IRREGULAR:
        yield _IRREGULAR[word]
        return
    if word.endswith("ies"):
        yield word[:-3] + "y"
    elif word.endswith(("ses", "xes", "zes", "ches", "shes")):
        yield word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        yield word[:-1]
    elif word.endswith(("s", "x", "z", "ch", "sh")):
        yield word + "es"
    elif word.endswith("y") and word[-2] not in "aeiou":
        yield word[:-1] + "ies"
    else:
        yield word + "s"


def find_spelt_numbers(reading: Reading) -> Iterator[Piece]:
    """Yield the numbers in words, and those whose digits are apart or mixed with letters that look like digits."""
    yield from _find_number_words(reading.words)
    for pattern in (_APART, _DOTTED):
        for found in pattern.finditer(reading.text):
            if len(digits := re.sub(r"\D", "", found["digits"])) <= _MAX_DIGITS:
                yield Piece(normalise_number(digits + (found["fraction"] or "")), *found.span())
    for found in _LETTERS.finditer(reading.text):
        yield Piece(normalise_number(found[0].translate(_AS_DIGITS)), *found.span())


def _find_number_words(words: Sequence[Piece]) -> Iterator[Piece]:
    texts = [word.text for word in words]
    at = 0
    while at < len(words):
        if texts[at] not in _NUMBER_WORDS:
            at += 1
            continue
        end = _find_end(texts, at)
        start = at - (texts[at] in _MULTIPLIERS and at > 0 and texts[at - 1] == "a")
        fraction = _read_fraction(texts, end)
        values = {parse(texts[start:end]) for parse in (parse_cardinal, _parse_digits, _parse_year)} - {None}
        for value in map(str, values):
            yield Piece(value, words[start].start, words[end - 1].end)
            if fraction:
                yield Piece(normalise_number(f"{value}.{fraction}"), words[start].start, words[end + len(fraction)].end)
        at = end


def _find_end(texts: Sequence[str], start: int) -> int:
    """Return where a run of number words ends; an `and` after hundred or thousand belongs to it."""
    end = start + 1
    while end < len(texts):
        is_and = texts[end] == "and" and texts[end - 1] in _MULTIPLIERS and texts[end + 1 : end + 2] != ["oh"]
        if texts[end] not in _NUMBER_WORDS and not (
            is_and and texts[end + 1 : end + 2] and texts[end + 1] in _NUMBER_WORDS
        ):
            break
        end += 1
    return end


def _read_fraction(texts: Sequence[str], at: int) -> str:
    """Return 62 of `point six two`, if that is what follows."""
    if texts[at : at + 1] != ["point"]:
        return ""
    return "".join(str(_DIGITS[word]) for word in takewhile(_DIGITS.__contains__, texts[at + 1 :]))


def parse_cardinal(words: Sequence[str]) -> int | None:
    """Return the number that the words are, such as 4812 of `four thousand eight hundred and twelve`; None if none."""
    total, current, scale, is_open = 0, 0, 10**12, False
    for place, word in enumerate(words):
        if word == "and" and place and is_open:
            continue
        if word in _SCALES and 0 < current < 1000 and _SCALES[word] < scale:
            scale = _SCALES[word]
            total, current, is_open = total + current * scale, 0, True
        elif word == "hundred" and 0 < current < 100:
            current, is_open = current * 100, True
        elif word in _TENS and current % 100 == 0:
            current, is_open = current + _TENS[word], True
        elif word in _SMALL and (
            current % 100 == 0 or (current % 10 == 0 and current % 100 > 10 and _SMALL[word] < 10)
        ):
            if _SMALL[word] == 0 and len(words) > 1:
                return None
            current, is_open = current + _SMALL[word], False
        elif word == "a" and place == 0 and len(words) > 1:
            current = 1
        else:
            return None
    return total + current if words else None


def _parse_digits(words: Sequence[str]) -> int | None:
    """Return 4812 of `four eight one two`."""
    if not 1 < len(words) <= _MAX_DIGITS or not all(word in _DIGITS for word in words):
        return None
    return int("".join(str(_DIGITS[word]) for word in words))


def _parse_year(words: Sequence[str]) -> int | None:
    """Return 1874 of `eighteen seventy four`, 1905 of `nineteen oh five`, 4812 of `forty eight twelve`."""
    for split in range(1, len(words)):
        first, rest = parse_cardinal(words[:split]), words[split:]
        second = _parse_digits(rest) if rest[0] in ("oh", "zero") else parse_cardinal(rest)
        if first and second and 9 < first < 100 and (9 < second < 100 or (len(rest) == 2 and second < 10)):
            return first * 100 + second
    return None
