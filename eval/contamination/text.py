"""Normalised text for leak checks: encodings that hide a word from a search, but not from a language model, are undone.

These are HTML entities, JSON escapes, compatibility forms of Unicode, accents, case, and characters without width.
Numbers are read apart from words, in every possible sense.

    reading = Reading("Sold for $1,234.50 in Pavel&#8203;del.")
    [word.text for word in reading.words]         # ["sold", "for", "1", "234", "50", "in", "paveldel"]
    [number.text for number in reading.numbers]   # ["1234.5", "1", "234.5"]
"""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, pairwise

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_WITHOUT_WIDTH = {"Cf", "Cc", "Cs", "Mn", "Me"}  # categories; accents are marks
# Scripts without blanks between words: each character is a word of its own.
_UNSPACED = "\u0e00-\u0eff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_NUMBER = re.compile(r"(?<![^\W_])\.?\d+(?:[.,']\d+)*(?:e[+-]?\d{1,2})?(?![^\W_]*\d)")
_SPACED_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3})+(?:\.\d+)?(?![^\W_]|[.,]?\d)")
_THOUSANDS = re.compile(r"\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?")
_CONTINENTAL = re.compile(r"\d{1,3}(?:\.\d{3})*,\d+|\d{1,3}(?:\.\d{3}){2,}")
_PLAIN = re.compile(r"(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d{1,2})?")
_QUANTITY = re.compile(r"[\s$€£¥+-]*(?P<number>[\d.,' ]*\d(?:e[+-]?\d{1,2})?)\s*(?:[^\W\d_]|[%°/^ ])*[.\s]*")


@dataclass(frozen=True, slots=True)
class Piece:
    """A word or a number, and its place in the text."""

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

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.text.split("\n"))][:-1]

    @cached_property
    def _paragraphs(self) -> list[int]:
        """The number of each line's paragraph; an empty line belongs to the one before it."""
        lines = self.text.split("\n")
        breaks = (not before.strip() and bool(line.strip()) for before, line in pairwise(lines))
        return list(accumulate(breaks, initial=0))

    def find_line(self, position: int) -> int:
        """Return the line of a position, from 0."""
        return bisect_right(self._line_starts, position) - 1

    def find_paragraph(self, position: int) -> int:
        return self._paragraphs[self.find_line(position)]

    def find_line_span(self, position: int) -> tuple[int, int]:
        start = self._line_starts[self.find_line(position)]
        end = self.text.find("\n", start)
        return start, len(self.text) if end < 0 else end


def join_words(words: Iterable[Piece]) -> str:
    """Return the text without white space and punctuation, as GAIA's scorer compares texts."""
    return "".join(word.text for word in words)


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
    line = line.replace("\n", " ").replace("\r", " ").replace("\t", " ")
    if line.isascii() and line.isprintable():
        return line.lower()
    line = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", line).casefold())
    return unicodedata.normalize("NFC", "".join(map(_normalise_character, line)))


def _normalise_character(character: str) -> str:
    if character < "\x7f" and character >= " ":
        return character
    if character == "\N{RIGHT SINGLE QUOTATION MARK}":
        return "'"
    category = unicodedata.category(character)
    if category in _WITHOUT_WIDTH:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    return " " if category in ("Zs", "Zl", "Zp") else character


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
    if "e" in number:
        number = format(Decimal(number), "f")
    whole, _, fraction = number.partition(".")
    fraction = fraction.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
