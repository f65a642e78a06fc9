"""Calculations, conversions and word puzzles that a question states in its own text.

solve("What is 15% of 80?")                         # Finding(expression="80 * 15 / 100")
solve("How many miles are 10 km? Round to one decimal place.")     # Finding(conversion=("10 km", "miles"), decimals=1)
solve("Reverse the word 'lantern'.")                # Finding(answer="nretnal")
"""

import re
from dataclasses import dataclass

import simpleeval

from mas.simulation.solving.wording import format_number, read_decimals, replace_typographic

_N = r"[-+]?\$?\d[\d,]*(?:\.\d+)?"
_UNIT = (
    r"[a-zA-Z\u00b5\u00b0\u00b2\u00b3/]+(?:\s(?:per|square|cubic|miles?|hours?|seconds?|feet|metres?|meters?|ounces?"
    r"|pounds?|tons?|celsius|fahrenheit))*"
)
_WORDED = (  # pattern → expression; the groups are numbers
    (rf"({_N}) ?(?:%|percent) (?:of|off) ({_N})", "{1} * {0} / 100"),
    (
        rf"remainder (?:when|of|if) ({_N}) to the power (?:of )?({_N}) (?:is )?(?:divided by|mod) ({_N})",
        "{0} ** {1} % {2}",
    ),
)
_OPERATORS = {
    "times": "*",
    "multiplied by": "*",
    "plus": "+",
    "minus": "-",
    "divided by": "/",
    "over": "/",
    "x": "*",
    "^": "**",
}


@dataclass(frozen=True)
class Finding:
    """Answer, calculation or conversion that answers a question. Exactly one of the first three is set."""

    answer: str | None = None
    expression: str | None = None
    conversion: tuple[str, str] | None = None  # quantity with its unit, unit wanted
    decimals: int | None = None
    why: str = "It follows from the question itself."


def solve(question: str) -> Finding | None:
    """Return the solution; None if the question states no puzzle, conversion or calculation."""
    question = replace_typographic(question)
    answer = _solve_puzzle(question)
    if answer is not None:
        return Finding(answer=answer, why="Counted letter by letter.")
    decimals = read_decimals(question)
    if conversion := _read_conversion(question):
        return Finding(conversion=conversion, decimals=decimals, why="A conversion of units.")
    if expression := _read_calculation(question):
        return Finding(expression=expression, decimals=decimals, why="A sum stated in the question.")
    return None


def _solve_puzzle(question: str) -> str | None:
    quoted = re.findall(r"['\"]([^'\"]+)['\"]", question)
    asked = question.lower()
    if turned := re.search(r"written backwards[^.]*\. (.+)", question):
        return _pick_listed_word(turned[1][::-1])
    if re.search(r"\brevers|\bbackwards?\b", asked):
        match = re.search(
            r"(?:word|string|letters? (?:of|in)|spell|write|reverse)\s+(?!the|of|in|word)([A-Za-z]+)", question
        )
        word = quoted[-1] if quoted else match[1] if match else None
        return word[::-1] if word else None
    count = re.search(
        r"(?:letter|character)s?\s+['\"]?([A-Za-z])\b['\"]?.*?(?:\bin|\bword|\bphrase)\b", question, re.IGNORECASE
    )
    if count and re.search(r"how (?:many|often)|count|number of", asked):
        named = [text for text in quoted if len(text) > 1] or re.findall(
            r"(?:word|in|phrase)\s+([A-Za-z]{2,})\W*$", question
        )
        return str(named[-1].lower().count(count[1].lower())) if named else None
    return None


def _pick_listed_word(sentence: str) -> str | None:
    match = re.search(r"the (first|second|third|fourth|last) of \w+ words[^:]*: ([^.]+)", sentence)
    if not match:
        return None
    words = match[2].split(", ")
    place = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}[match[1]]
    return words[place] if place < len(words) else None


def _read_conversion(question: str) -> tuple[str, str] | None:
    patterns = (
        (rf"convert ({_N}) ?({_UNIT}) (?:in)?to ({_UNIT})", (1, 2, 3)),
        (
            rf"how (?:many|much) ({_UNIT}) (?:are|is|make|do|does|equals?)(?: there)?(?: in)? ({_N}) ?({_UNIT})",
            (2, 3, 1),
        ),
        (
            r"(?:what is|what are|express|write|give|how (?:long|far|heavy|hot|much) is)"
            rf" ({_N}) ?({_UNIT}) (?:in|as) ({_UNIT})",
            (1, 2, 3),
        ),
        (rf"({_N}) ?(?:degrees )?({_UNIT})\W.*\b(?:in|into|to) (?:degrees )?({_UNIT})", (1, 2, 3)),
    )
    text = re.sub(
        r"\bdegrees? (?=celsius|fahrenheit|c\b|f\b)|\bUS liquid (?=gallon)", "", question, flags=re.IGNORECASE
    )
    for index, (pattern, order) in enumerate(patterns):
        match = re.search(pattern, text, re.IGNORECASE)
        if match and (index < 3 or re.search(r"\bconver|\bexpress|\bequivalent", text, re.IGNORECASE)):
            amount, unit, wanted = (match[group].strip() for group in order)
            return f"{amount.replace(',', '').lstrip('$')} {_trim_unit(unit)}", _trim_unit(wanted)
    return None


def _trim_unit(unit: str) -> str:
    """Return the unit as unit converters know it; short symbols keep their case (`kW`, `C`)."""
    unit = re.sub(r"\s+(?:are|is|in|to|and|rounded)$", "", unit.strip().rstrip("/"))
    return unit if len(unit) <= 3 else unit.lower()


def _read_calculation(question: str) -> str | None:
    if found := _read_shares(question) or _read_boxes(question):
        return found
    for pattern, form in _WORDED:
        if match := re.search(pattern, question, re.IGNORECASE):
            return form.format(*(group.replace(",", "").replace("$", "") for group in match.groups()))
    text = re.sub(r"(?<=\d),(?=\d{3})", "", question)
    for name, sign in _OPERATORS.items():
        text = re.sub(rf"(?<=[\d)])\s*{re.escape(name)}\s*(?=[\d(])", f" {sign} ", text)
    runs: list[str] = re.findall(r"[\d(][\d.()+\-*/% ]*[\d)]", text)
    sums = [
        run for run in runs if re.search(r"\d\)*\s*(?:\*\*|[-+*/%])\s*\(*\d", run) and not re.fullmatch(r"[\d-]+", run)
    ]
    return max(sums, key=len) if sums else None


def _read_shares(question: str) -> str | None:
    """Return the rest of an amount from which one share after another is taken."""
    shares = re.findall(rf"({_N}) ?(?:%|percent)", question)
    amount = re.search(rf"({_N})(?! ?(?:%|percent)|[\d.,]*\d)", question)
    if not shares or not amount or not re.search(r"\b(left|remain\w*)\b", question, re.IGNORECASE):
        return None
    return " * ".join([amount[1].replace(",", ""), *(f"(1 - {share} / 100)" for share in shares)])


def _read_boxes(question: str) -> str | None:
    """Return the nails in boxes on shelves, minus those that do not count."""
    held = re.search(rf"({_N}) \w+ with ({_N}) \w+ each, and ({_N}) \w+ in every", question)
    if not held:
        return None
    less = re.findall(rf"({_N}) \w+ are (?:bent|lost|broken)", question)
    return " - ".join([" * ".join(held.groups()), *less])


def evaluate_expression(expression: str) -> float | None:
    """Return the value of an expression; None if it cannot be evaluated."""
    try:
        value = simpleeval.simple_eval(expression, functions={"abs": abs, "round": round})
        return float(value)
    except (simpleeval.InvalidExpression, ArithmeticError, SyntaxError, TypeError, ValueError):
        return None


def round_result(text: str, decimals: int | None) -> str:
    """Return the number in a tool's result, rounded; the text itself if it holds none."""
    match = re.search(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", text, re.IGNORECASE)
    return format_number(float(match[0].replace(",", "")), decimals) if match else text.strip()
