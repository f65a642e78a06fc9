"""Normalised text for leak checks: encodings that hide a word from a search, but not from a language model, are undone.

These are HTML entities, JSON escapes, compatibility forms of Unicode, accents, case, letters of other scripts that look
like Latin ones, and characters without width, which are read both as nothing and as a blank. Numbers are read apart
from words, in every possible sense.

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

_ROUNDS_OF_ENTITIES = 3  # &amp;amp;#80; and the like
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_WIDTHLESS = {"Cf", "Cc", "Cs"}  # with marks ("Mn", "Me"), which go in any case
# Small letters that look like Latin ones: the usual cases of Unicode's confusables.txt (UTS #39) among Cyrillic, Greek,
# Armenian and Latin letters. Targets and prompts are read alike, so a text in one of these scripts is still found.
_LOOKALIKES = str.maketrans(
    "\u0430\u0432\u0435\u0455\u0456\u0458\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0475\u051b\u051d\u04af\u04bb\u0501\u04cf"
    "\u03b1\u03b2\u03b5\u03b6\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03b3\u03c9\u03f2\u03b7\u03f3"
    "\u0585\u057d\u0570\u0578\u0581\u0131\u0237\u0251\u0261\u0269\u029f\u026a\u0274\u0280\u028f\u0299\u0262\u029c"
    "\u1d00\u1d04\u1d05\u1d07\u1d0a\u1d0b\u1d0d\u1d0f\u1d18\u1d1b\u1d1c\u1d20\u1d21\u1d22\ua730\ua731\u0142\u00f8\u0111\u0127\u0167",
    "abesijkmhopctyxvqwyhdlabezikmvoptuxywcnjouhnqijagilinrybghacdejkmoptuvwzfslodht",
)
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
    """A word or a number, and its place in the text."""

    text: str
    start: int
    end: int


class Reading:
    """The words and numbers of one text. Lines are kept: one line in, one line out.

    `blanks`: read characters without width as blanks rather than as nothing.
    """

    def __init__(self, text: str, blanks: bool = False) -> None:
        self.text = "\n".join(_normalise(line, " " if blanks else "") for line in text.split("\n"))

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


def read_variants(text: str) -> Iterator[Reading]:
    """Yield one reading, or two of a text with characters without width."""
    first = Reading(text)
    yield first
    second = Reading(text, blanks=True)
    if second.text != first.text:
        yield second


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


def _normalise(line: str, widthless: str) -> str:
    if "\\" in line:
        line = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", line)
    for _ in range(_ROUNDS_OF_ENTITIES):
        if "&" not in line:
            break
        line = html.unescape(line)
    line = line.replace("\n", " ").replace("\r", " ").replace("\t", " ")
    if line.isascii() and line.isprintable():
        return line.lower()
    line = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", line).casefold()).translate(_LOOKALIKES)
    return unicodedata.normalize("NFC", "".join(_normalise_character(character, widthless) for character in line))


def _normalise_character(character: str, widthless: str) -> str:
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
