"""Mistakes of an agent that does not follow a skill: invented, rounded and miscalculated values.

round_numbers("Pen | 8841")                             # "Pen | about 8800"
calculate_mentally(Finding(expression="17 * 23"))       # "401" instead of 391
"""

import hashlib
import re

from mas.simulation.solving.self_contained import Finding, evaluate_expression
from mas.simulation.solving.wording import format_number, parse_number

UNKNOWN = "unknown"
_SYLLABLES = ("bel", "dor", "fen", "gal", "hol", "kar", "lin", "mar", "nor", "pol", "ras", "sel", "tor", "vin")
# Rough conversions from memory: part of the source unit's name, part of the target's, factor, offset added before.
_ROUGH = (
    ("fahrenheit", "celsius", 0.5, -30.0),
    ("degf", "degc", 0.5, -30.0),
    ("mile", "kilomet", 1.6, 0.0),
    ("kilogram", "pound", 2.2, 0.0),
    ("feet", "met", 0.3, 0.0),
    ("foot", "met", 0.3, 0.0),
    ("lit", "gallon", 0.25, 0.0),
    ("inch", "centimet", 2.5, 0.0),
    ("knot", "kilomet", 1.8, 0.0),
)


def invent_value(question: str) -> str:
    """Return a wrong value of the right kind, the same for the same question."""
    digest = hashlib.blake2b(f"made up\n{question}".encode("utf-8", "replace"), digest_size=8).digest()
    asked = question.lower()
    if re.search(
        r"\bhow (?:many|much|often|far|long)|number|total|sum|figure|convert|express|percent|\bvalue\b", asked
    ):
        return str(int.from_bytes(digest[:2], "big") % 9000 + 100)
    names = ["".join(_SYLLABLES[digest[at + part] % len(_SYLLABLES)] for part in (0, 1)).title() for at in (0, 2, 4)]
    return ", ".join(sorted(names)) if re.search(r"\blist\b|comma|names of|alphabetical", asked) else names[0]


def round_numbers(text: str) -> str:
    """Round every number of three or more digits to its first two."""

    def round_match(match: re.Match[str]) -> str:
        digits = match[0].replace(",", "").split(".")[0]
        size = 10 ** max(len(digits) - 2, 1)
        return f"about {round(int(digits) / size) * size}"

    return re.sub(r"(?<![\w.-])\d[\d,]{2,}(?:\.\d+)?(?![\w-])", round_match, text)


def calculate_mentally(finding: Finding) -> str:
    """Return the value without a tool: correct for two small numbers, else with an error in proportion to its size."""
    if finding.conversion:
        return _convert_roughly(*finding.conversion, finding.decimals)
    value = evaluate_expression(finding.expression) if finding.expression else None
    if value is None:
        return finding.answer or UNKNOWN
    numbers = [float(text) for text in re.findall(r"\d+(?:\.\d+)?", finding.expression or "")]
    if len(numbers) <= 2 and max(numbers) < 30 and re.fullmatch(r"[\d +-]+", finding.expression or ""):
        return format_number(value, finding.decimals)
    digits = len(str(int(abs(value))))
    return format_number(value + 10 ** max(digits - 2, 0) * (1 if digits > 1 else 2), finding.decimals)


def calculate_exactly(finding: Finding) -> str:
    """Return the correct value without a tool; `unknown` for a conversion."""
    if finding.answer is not None:
        return finding.answer
    value = evaluate_expression(finding.expression) if finding.expression else None
    return UNKNOWN if value is None else format_number(value, finding.decimals)


def miscount(value: str) -> str:
    """Add one to a number, or swap the first two letters of a word."""
    amount = parse_number(value)
    return format_number(amount + 1, None) if amount is not None else value[1::-1] + value[2:]


def _convert_roughly(quantity: str, unit: str, decimals: int | None) -> str:
    amount, _, source = quantity.partition(" ")
    for start, end, factor, offset in _ROUGH:
        if start in source.lower() and end in unit.lower():
            return format_number((float(amount) + offset) * factor, decimals)
        if start in unit.lower() and end in source.lower():
            return format_number(float(amount) / factor - offset, decimals)
    return UNKNOWN
