"""Matcher of texts for leak checks: it finds spellings of targets and passages of questions in a text.

    index = FormIndex([*derive_whole_forms("1,234"), *derive_whole_forms("Pavel Del")])
    list(index.find(Reading("Pavel-Del paid 1234.")))     # [("paveldel", 0, 9), ("1234", …), ("#1234", …)]
    list(extract_passages("Which lamp was lit first at Marrow Point in 1874?", PASSAGE))     # three runs of eight words

A form is a run of letters, found wherever it begins and ends with a word and whatever is between its letters, or a
number (`#1234`).

A `Reading` undoes encodings that hide a word from a search, but not from a language model: HTML entities, JSON escapes,
compatibility forms of Unicode, accents, case, and characters without width. Numbers are read apart from words, in every
possible sense.

    reading = Reading("Sold for $1,234.50 in Pavel&#8203;del.")
    [word.text for word in reading.words]         # ["sold", "for", "1", "234", "50", "in", "paveldel"]
    [number.text for number in reading.numbers]   # ["1234.5", "1", "234.5"]
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

PASSAGE, HINT = 8, 4  # words of a question
LONGEST = 200  # characters of a form
SHORT = 3  # characters
_SIGNIFICANT = 5  # digits; a number with fewer may occur by chance
# Words that prompts are made of, compiled by hand: the most common English words, and those of instructions about
# questions, files, tools and answers. As a target or in a passage of a question they prove nothing.
COMMON_WORDS = frozenset(Path(__file__).with_name("common_words.txt").read_text("ascii").split())
LIST = re.compile("[,;\n]")  # as in eval/scorers/gaia.py
_ARTICLES = ("the", "a", "an")

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_UNSEEN = {"Cf", "Cc", "Cs", "Mn", "Me"}  # categories without width; accents are marks
# Scripts without blanks between words: each character is a word of its own.
_UNSPACED = "\u0e00-\u0eff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_NUMBER = re.compile(r"(?<![^\W_])\.?\d+(?:[.,']\d+)*(?:e[+-]?\d{1,2})?(?![^\W_]*\d)")
_SPACED_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3})+(?:\.\d+)?(?![^\W_]|[.,]?\d)")
_THOUSANDS = re.compile(r"\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?")
_CONTINENTAL = re.compile(r"\d{1,3}(?:\.\d{3})*,\d+|\d{1,3}(?:\.\d{3}){2,}")
_PLAIN = re.compile(r"(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d{1,2})?")
_QUANTITY = re.compile(r"[\s$€£¥+-]*(?P<number>[\d.,' ]*\d(?:e[+-]?\d{1,2})?)\s*(?:[^\W\d_]|[%°/^ ])*[.\s]*")


class Piece(NamedTuple):
    """A word, a number or the key of a form, and where in the reading's text it is."""

    text: str
    start: int
    end: int


class Reading:
    """The words and numbers of one text. Lines are kept: one line in, one line out."""

    def __init__(self, text: str) -> None:
        self.text = "\n".join(map(_normalise, text.split("\n")))

    @cached_property
    def words(self) -> list[Piece]:
        return [Piece(found[0], *found.span()) for found in _WORD.finditer(self.text)]

    @cached_property
    def numbers(self) -> list[Piece]:
        return list(_numbers(self.text))


def parse_quantity(text: str) -> str | None:
    """Return the number that a whole normalised text is, without currency, unit and separators; None if it is none."""
    found = _QUANTITY.fullmatch(text) if len(text) < 100 else None
    if not found:
        return None
    number = found["number"].strip()
    if _THOUSANDS.fullmatch(number):
        number = re.sub("[,' ]", "", number)
    return normalise_number(number) if _PLAIN.fullmatch(number) else None


def _normalise(line: str) -> str:
    line = html.unescape(_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", line))
    line = re.sub(r"\s", " ", line).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if line.isascii() and line.isprintable():
        return line.lower()
    line = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", line).casefold())
    line = "".join(each for each in line if unicodedata.category(each) not in _UNSEEN)
    return unicodedata.normalize("NFC", re.sub(r"\d", lambda digit: str(int(digit[0])), line))


def _numbers(text: str) -> Iterator[Piece]:
    for found in _NUMBER.finditer(text):
        for value in dict.fromkeys(_list_values(found[0])):
            yield Piece(value, *found.span())
    for found in _SPACED_NUMBER.finditer(text):
        yield Piece(normalise_number(found[0].replace(" ", "")), *found.span())


def _list_values(run: str) -> Iterator[str]:
    """Yield the possible values of digits with separators: one number, or several."""
    if _THOUSANDS.fullmatch(run):
        yield normalise_number(re.sub("[,']", "", run))
    if _CONTINENTAL.fullmatch(run):
        yield normalise_number(run.replace(".", "").replace(",", "."))
    for part in re.split("[,']", run):
        if _PLAIN.fullmatch(part):
            yield normalise_number(part)


def normalise_number(number: str) -> str:
    """Return the number without needless zeros: `1234.50` → `1234.5`, `1e3` → `1000`."""
    return format(Decimal(number).normalize(), "f")


class Form(NamedTuple):
    """One spelling of something that is looked for."""

    key: str  # a run of letters, or `#` and a number
    weak: bool = False  # too short or common to prove anything alone
    specific: bool = False  # too long to occur by chance


def derive_inflected_forms(target: str) -> Iterator[Form]:
    """Yield the forms of a target, of the items of a list and of all of them together, also in plural or singular."""
    yield from derive_whole_forms(target)
    if items := split_items(target):
        yield from _derive_list_forms(items)
    for item in (target, *LIST.split(target)):
        for *before, last in vary_article([word.text for word in Reading(item).words]):
            if last.isalpha() and len(last) > SHORT:
                words = [*before, last.removesuffix("s") if last.endswith("s") else f"{last}s"]
                yield Form("".join(words), weak=are_common(words))


def derive_whole_forms(target: str) -> Iterator[Form]:
    """Yield the forms of a target as a number and as a text."""
    reading = Reading(target)
    number = parse_quantity(reading.text.strip())
    if number is not None:
        yield Form(f"#{number}", weak=_is_weak_number(number), specific=_count_digits(number) >= _SIGNIFICANT)
    if number is not None and not any(letter.isalpha() for letter in reading.text):
        return
    words = [word.text for word in reading.words]
    for said in vary_article(words):
        run = "".join(said)
        if len(run) <= LONGEST:
            yield Form(run, weak=len(run) <= SHORT or are_common(said), specific=len(said) > 2 and len(run) >= 12)
    for first in range(len(words) - PASSAGE + 1):  # a part of a long answer
        yield Form("".join(words[first : first + PASSAGE]), specific=True)


def split_items(target: str) -> list[Reading]:
    """Return the items of a list; empty for anything else."""
    items = [Reading(item) for item in LIST.split(target) if Reading(item).words]
    return items if len(items) > 1 and parse_quantity(Reading(target).text.strip()) is None else []


def _derive_list_forms(items: Sequence[Reading]) -> Iterator[Form]:
    forms = [form for item in items for form in derive_whole_forms(item.text)]
    yield from forms
    words = [[word.text for word in item.words if word.text != "and"] for item in items]
    said = [word for item in words for word in item]
    distinctive = any(not form.weak for form in forms) or (len(items) > 2 and not are_common(said))
    *first, last = ("".join(item) for item in words)
    for run in ("".join(said), f"{''.join(first)}and{last}", "and".join((*first, last))):
        yield Form(run, weak=not distinctive, specific=distinctive)


def extract_passages(question: str, size: int) -> Iterator[Form]:
    """Yield all runs of so many words with at least one distinctive word; a shorter question as a whole."""
    words = [word.text for word in Reading(question).words]
    if len(words) < size:
        size = len(words) if len(words) >= 3 and size == PASSAGE else size
    for first in range(len(words) - size + 1):
        said = words[first : first + size]
        if any((len(word) > 1 or not word.isascii()) and word not in COMMON_WORDS for word in said):
            yield Form("".join(said))


def vary_article(words: list[str]) -> Iterator[list[str]]:
    """Yield the words with and without an article in front."""
    if words:
        yield words
    if len(words) > 1 and words[0] in _ARTICLES:
        yield words[1:]


def are_common(words: Sequence[str], max_digits: int = 2) -> bool:
    """Return whether all are words of any prompt, single letters or short numbers."""
    return all(
        word in COMMON_WORDS or (word.isascii() and (len(word) == 1 or (word.isdigit() and len(word) <= max_digits)))
        for word in words
    )


def _is_weak_number(number: str) -> bool:
    """Return whether the number is short, small or round (1000, 20000), as in any prompt."""
    is_small = float(number) < 100 and _count_digits(number) < _SIGNIFICANT
    return len(number) <= SHORT or is_small or ("." not in number and len(number.rstrip("0")) <= 1)


def _count_digits(number: str) -> int:
    """Return the number of significant digits."""
    return len(number.replace(".", "").lstrip("0")) if "." in number else len(number.rstrip("0"))


class FormIndex:
    """Forms to be looked for. It is kept in memory only: most of them are answers."""

    def __init__(self, forms: Iterable[Form] = ()) -> None:
        self._keys: set[str] = set()
        self._lengths: set[int] = set()
        for form in forms:
            self.add(form)

    def add(self, form: Form) -> str:
        self._keys.add(form.key)
        if form.key and not form.key.startswith("#"):
            self._lengths.add(len(form.key))
        return form.key

    def find(self, reading: Reading) -> Iterator[Piece]:
        """Yield all occurrences. 'Pavel-Del' is the run `paveldel`, 'Paveldelta' is not."""
        text = "".join(word.text for word in reading.words)
        ends: dict[int, int] = {}  # where a word ends in the squeezed text → where it ends in the reading's
        at = 0
        for word in reading.words:
            at += len(word.text)
            ends[at] = word.end
        lengths, at = sorted(self._lengths), 0
        for word in reading.words:
            for length in lengths:
                end = ends.get(at + length)
                if end is not None and (key := text[at : at + length]) in self._keys:
                    yield Piece(key, word.start, end)
            at += len(word.text)
        for number in reading.numbers:
            if (key := f"#{number.text}") in self._keys:
                yield Piece(key, number.start, number.end)
