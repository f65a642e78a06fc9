"""How a gold answer, or a part of a question, may be written: what checks for leaks look for in a `Reading`.

set(gold_forms("1,234 metres"))      # the number 1234, and the run of letters 1234metres
list(passages("Which lamp was lit first at Marrow Point in 1874?", PASSAGE))     # three runs of eight words
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from eval.contamination.common_words import COMMON_WORDS
from eval.contamination.text import Piece, Reading, parse_quantity

PASSAGE, HINT = 8, 4  # words of a question
LONGEST = 200  # characters of what is looked for as a whole
SHORT = 3  # characters
_SMALL = 100
_SIGNIFICANT = 5  # digits from which on a number is hardly met by chance
_LONG_WORDS, _LONG_CHARS = 3, 12  # the same of a text
_LIST = re.compile("[,;\n]")  # as in eval/scorers/gaia.py
_ARTICLES = ("the", "a", "an")


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which something may be written: as a run of letters (`word`), a `number` or n `gram` words."""

    how: Literal["word", "number", "gram"]
    text: str
    n_words: int = 1
    weak: bool = False  # so short or common that alone it proves nothing
    specific: bool = False  # so long that it is hardly met by chance


def derive_forms(target: str) -> Iterator[Form]:
    """How a gold answer may be written: as a number, as a text, as the items of a list and all of them together."""
    yield from derive_whole_forms(target)
    if items := split_items(target):
        yield from _list_forms(items)


def derive_whole_forms(target: str) -> Iterator[Form]:
    """The same without the items of a list."""
    text = Reading(target).text.strip()
    number = parse_quantity(text)
    if number is not None:
        yield Form("number", number, weak=_weak_number(number), specific=_digits(number) >= _SIGNIFICANT)
    if number is None or any(letter.isalpha() for letter in text):
        yield from _text_forms(Reading(target).words)


def split_items(target: str) -> list[Reading]:
    """Empty for what is no list."""
    items = [Reading(item) for item in _LIST.split(target) if Reading(item).words]
    return items if len(items) > 1 and parse_quantity(Reading(target).text.strip()) is None else []


def extract_passages(question: str, size: int) -> Iterator[Form]:
    """All runs of so many words that say more than a form of words; a shorter question as a whole."""
    words = [word.text for word in Reading(question).words]
    if len(words) < size:
        size = len(words) if len(words) >= 3 and size == PASSAGE else size
    for first in range(len(words) - size + 1):
        said = words[first : first + size]
        if any(_telling(word) for word in said):
            yield Form("gram", " ".join(said), size)


def are_common(words: Sequence[str], max_digits: int = 2) -> bool:
    """Words that any prompt may have, single letters and short numbers."""
    return all(
        word in COMMON_WORDS or (word.isascii() and (len(word) == 1 or (word.isdigit() and len(word) <= max_digits)))
        for word in words
    )


def _list_forms(items: Sequence[Reading]) -> Iterator[Form]:
    forms = [form for item in items for form in derive_forms(item.text)]
    yield from forms
    words = [word.text for item in items for word in item.words if word.text != "and"]
    told_apart = any(not form.weak for form in forms) or (len(items) > 2 and not are_common(words))
    yield Form("gram", " ".join(words), len(words), weak=not told_apart, specific=told_apart)


def _text_forms(words: Sequence[Piece]) -> Iterator[Form]:
    texts = [word.text for word in words]
    for said in (texts, texts[1:] if texts[:1] and texts[0] in _ARTICLES else []):
        run = "".join(said)
        if run and len(run) <= LONGEST:
            weak = len(run) <= SHORT or are_common(said)
            yield Form("word", run, weak=weak, specific=len(said) >= _LONG_WORDS and len(run) >= _LONG_CHARS)
    for first in range(len(texts) - PASSAGE + 1):  # a part of a long answer
        yield Form("gram", " ".join(texts[first : first + PASSAGE]), PASSAGE, specific=True)


def _telling(word: str) -> bool:
    return (len(word) > 1 or not word.isascii()) and word not in COMMON_WORDS


def _weak_number(number: str) -> bool:
    """Short, small, or round (1000, 20000): numbers of any prompt."""
    small = float(number) < _SMALL and _digits(number) < _SIGNIFICANT
    return len(number) <= SHORT or small or ("." not in number and len(number.rstrip("0")) <= 1)


def _digits(number: str) -> int:
    """How many of them are significant."""
    return len(number.replace(".", "").lstrip("0")) if "." in number else len(number.rstrip("0"))
