"""Calculations and unit conversions that a question spells out.

expressions("What is 37 * 412 - 5?")                 # ("37 * 412 - 5",)
conversions("Convert 12 miles to kilometers.")       # (Conversion("12", "miles", "kilometers"),)
"""

import re
from dataclasses import dataclass

_NUMBER = r"\d+(?:\.\d+)?"
_SIGNED = rf"-?{_NUMBER}"
_OPERATOR = r"(?:\*\*|//|[-+*/%])"
_EXPRESSION = re.compile(rf"\(*{_SIGNED}\)*(?:\s*{_OPERATOR}\s*\(*{_SIGNED}\)*)+")
_DATE_OR_RANGE = re.compile(r"\d+(?:-\d+)+|\d+(?:/\d+){2}")
_IN_SYMBOLS = (  # in this order
    (r"(?<=\d),(?=\d{3}\b)", ""),
    (r"(?<=\d)\s*(?:%|percent)\s+of\s+(?=\d)", " / 100 * "),
    (r"\b(?:divided by|over)\b|\u00f7", "/"),
    (r"\b(?:multiplied by|times)\b|\u00d7|\u00b7|(?<=\d)\s+x\s+(?=\d)", "*"),
    (r"\bplus\b", "+"),
    (r"\bminus\b|\u2212", "-"),
    (r"\b(?:to the power of|raised to)\b|\^", "**"),
)
_LISTED = re.compile(rf"\b(sum|total|product) of ({_NUMBER}(?:(?:,\s*|,?\s+and\s+){_NUMBER})+)", re.IGNORECASE)
_UNIT = (
    r"(?:degrees?\s+|square\s+|cubic\s+|nautical\s+|metric\s+|fluid\s+)?[A-Za-zµ°]+"
    r"(?:\s+per\s+[A-Za-z]+|/[A-Za-z]+)?(?:\*\*\d|\^\d)?"
)
_CONVERSIONS = (
    re.compile(
        rf"(?P<value>{_SIGNED})\s*(?P<unit>{_UNIT})\s+(?:expressed\s+|converted\s+)?(?:in|into|to|as)\s+(?P<to>{_UNIT})"
    ),
    re.compile(
        rf"how many (?P<to>{_UNIT})\s+(?:are|is|make up|make|equal|correspond to)\s+(?:there\s+)?(?:in\s+)?"
        rf"(?P<value>{_SIGNED})\s*(?P<unit>{_UNIT})",
        re.IGNORECASE,
    ),
)
_ROUNDED = re.compile(
    r"\b(\d+|zero|one|two|three|four|five|six)\s+(?:decimals?\b|decimal places?\b|digits? after)", re.I
)
_WHOLE = re.compile(r"\bnearest (?:whole|integer|unit)|\bto an integer\b", re.IGNORECASE)
_DIGITS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}


@dataclass(frozen=True)
class Conversion:
    value: str
    unit: str
    to_unit: str


def expressions(question: str) -> tuple[str, ...]:
    for pattern, symbol in _IN_SYMBOLS:
        question = re.sub(pattern, symbol, question, flags=re.IGNORECASE)
    listed = [_join(found[1], found[2]) for found in _LISTED.finditer(question)]
    spelled = [_closed(found[0]) for found in _EXPRESSION.finditer(question)]
    return tuple(dict.fromkeys(listed + [text for text in spelled if not _DATE_OR_RANGE.fullmatch(text)]))


def conversions(question: str) -> tuple[Conversion, ...]:
    question = re.sub(r"(?<=\d),(?=\d{3}\b)", "", question)
    for pattern in _CONVERSIONS:
        found = tuple(Conversion(m["value"], _unit(m["unit"]), _unit(m["to"])) for m in pattern.finditer(question))
        if found:
            return found
    return ()


def in_asked_form(number: str, question: str) -> str:
    """Round if the question says so. What a calculator returned is otherwise passed on as it is."""
    asked = _ROUNDED.search(question)
    if asked:
        word = asked[1].lower()
        return f"{float(number):.{_DIGITS[word] if word in _DIGITS else int(word)}f}"
    return f"{float(number):.0f}" if _WHOLE.search(question) else number


def _join(kind: str, numbers: str) -> str:
    return (" * " if kind.lower() == "product" else " + ").join(re.findall(_NUMBER, numbers))


def _closed(text: str) -> str:
    """The expression without brackets that belong to the sentence around it."""
    while text.count("(") > text.count(")") and text.startswith("("):
        text = text[1:]
    while text.count(")") > text.count("(") and text.endswith(")"):
        text = text[:-1]
    return text


def _unit(text: str) -> str:
    text = re.sub(r"\Adegrees?\s+", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\Asquare\s+(\w+)", r"\1**2", text, flags=re.IGNORECASE)
    return re.sub(r"\Acubic\s+(\w+)", r"\1**3", text, flags=re.IGNORECASE)
