"""Text as checks for leaks read it: whatever hides a word from a search, but not from a language model, is undone.

HTML entities, escapes of JSON, compatibility forms of Unicode, accents, case, and characters without width: those are
read both as nothing and as a blank. Numbers are read apart from words, in every way in which they may be meant.

    reading = Reading("Sold for $1,234.50 in Pavel&#8203;del.")
    [word.text for word in reading.words]         # ["sold", "for", "1", "234", "50", "in", "paveldel"]
    [number.text for number in reading.numbers]   # ["1234.5", "1", "234.5"]
"""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, pairwise

_ROUNDS_OF_ENTITIES = 3  # &amp;amp;#80; and the like
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_WIDTHLESS = {"Cf", "Cc", "Cs"}  # with marks ("Mn", "Me"), which go in any case
_FILLERS = "\u115f\u1160\u3164\uffa0"
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
    """A word or a number, and where it stands in the text that was read."""

    text: str
    start: int
    end: int


class Reading:
    """One text, read for words and numbers. Lines are kept: one line in, one line out.

    `blanks`: characters without width are read as blanks rather than as nothing.
    """

    def __init__(self, text: str, blanks: bool = False) -> None:
        self.text = "\n".join(_normalised(line, " " if blanks else "") for line in text.split("\n"))

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

    def line(self, position: int) -> int:
        """From 0."""
        return bisect_right(self._line_starts, position) - 1

    def paragraph(self, position: int) -> int:
        return self._paragraphs[self.line(position)]

    def line_span(self, position: int) -> tuple[int, int]:
        start = self._line_starts[self.line(position)]
        end = self.text.find("\n", start)
        return start, len(self.text) if end < 0 else end


def read_variants(text: str) -> Iterator[Reading]:
    """One, or two of a text with characters without width."""
    first = Reading(text)
    yield first
    second = Reading(text, blanks=True)
    if second.text != first.text:
        yield second


def join_words(words: list[Piece]) -> str:
    """As GAIA's scorer compares texts: without white space and punctuation."""
    return "".join(word.text for word in words)


def parse_quantity(text: str) -> str | None:
    """The number that a whole normalised text is, apart from currency, unit and separators."""
    found = _QUANTITY.fullmatch(text) if len(text) < 100 else None
    if not found:
        return None
    number = found["number"].strip()
    if _THOUSANDS.fullmatch(number):
        number = re.sub("[,' ]", "", number)
    return _canonical(number) if _PLAIN.fullmatch(number) else None


def _normalised(line: str, widthless: str) -> str:
    if "\\" in line:
        line = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", line)
    for _ in range(_ROUNDS_OF_ENTITIES):
        if "&" not in line:
            break
        line = html.unescape(line)
    line = line.replace("\n", " ").replace("\r", " ").replace("\t", " ")
    if line.isascii() and line.isprintable():
        return line.lower()
    line = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", line).casefold())
    return unicodedata.normalize("NFC", "".join(_plain(character, widthless) for character in line))


def _plain(character: str, widthless: str) -> str:
    if character < "\x7f" and character >= " ":
        return character
    if character == "\N{RIGHT SINGLE QUOTATION MARK}":
        return "'"
    category = unicodedata.category(character)
    if category in ("Mn", "Me"):
        return ""
    if category in _WIDTHLESS or character in _FILLERS:
        return widthless
    if category == "Nd":
        return str(unicodedata.decimal(character))
    return " " if category in ("Zs", "Zl", "Zp") else character


def _numbers(text: str) -> Iterator[Piece]:
    for found in _NUMBER.finditer(text):
        for value in dict.fromkeys(_values(found[0])):
            yield Piece(value, *found.span())
    for found in _SPACED_NUMBER.finditer(text):
        yield Piece(_canonical(found[0].replace(" ", "")), *found.span())


def _values(run: str) -> Iterator[str]:
    """What digits with separators between them may mean: one number, or several beside each other."""
    if _THOUSANDS.fullmatch(run):
        yield _canonical(re.sub("[,']", "", run))
    if _CONTINENTAL.fullmatch(run):
        yield _canonical(run.replace(".", "").replace(",", "."))
    for part in re.split("[,']", run):
        if _PLAIN.fullmatch(part):
            yield _canonical(part)


def _canonical(number: str) -> str:
    """Without needless zeros: `1234.50` → `1234.5`, `1e3` → `1000`."""
    if "e" in number:
        number = format(Decimal(number), "f")
    whole, _, fraction = number.partition(".")
    fraction = fraction.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
