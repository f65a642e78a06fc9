"""What readers write around values: marks behind a cell, facts in a sheet's heading, amounts in a sound's first line.

marked("412 [=B5*2] [hidden row]")                     # Marked("412", {"formula": "=B5*2"}, ("hidden row",))
sheet_facts('sheet "Quay"; cells A1:C4; merged A2:A4') # {"sheet name": "Quay", "merged cells": "A2:A4"}
amounts("a.wav: sound, 0.5 seconds, 8000 Hz; page 1")  # {"seconds": "0.5", "Hz": "8000"}
part_asked("[page 1 of 2]\nA\n[page 2 of 2]\nB", "What is on page 2?")        # "[page 2 of 2]\nB"
"""

import re
from dataclasses import dataclass, field

_MARK = re.compile(
    r"\s*\[(?:(?P<formula>=(?:(?!\] \[).)*?)(?:, result not stored in the file)?|fill (?P<colour>[^\[\]]+)"
    r"|comment: (?P<comment>[^\[\]]*)|(?P<word>hidden row))\]\Z"
)
_FACT = re.compile(r"([a-z]+(?: [a-z]+)*) (\"[^\"]*\"|[A-Z0-9].*)")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ([A-Za-z]+)")
_PART_FLAGS = re.MULTILINE | re.DOTALL | re.IGNORECASE
_PART_ASKED = re.compile(r"\b(page|slide|chapter) (\d+)\b", re.IGNORECASE)
_NAMES = {"sheet": "sheet name", "merged": "merged cells"}


@dataclass(frozen=True)
class Marked:
    value: str
    facts: dict[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()


def marked(cell: str) -> Marked:
    """The value and the marks behind it, the last one first."""
    facts: dict[str, str] = {}
    words: list[str] = []
    while found := _MARK.search(cell):
        cell = cell[: found.start()]
        named = {"formula": found["formula"], "fill colour": found["colour"], "comment": found["comment"]}
        facts |= {name: value for name, value in named.items() if value}
        words += [found["word"]] if found["word"] else []
    return Marked(cell, facts, tuple(words))


def sheet_facts(heading: str) -> dict[str, str]:
    """Empty for a line that is no sheet's heading."""
    if not heading.startswith('sheet "'):
        return {}
    found = [_FACT.fullmatch(part.strip()) for part in heading.split(";")]
    return {_NAMES[fact[1]]: fact[2].strip('"') for fact in found if fact and fact[1] in _NAMES}


def amounts(first_line: str) -> dict[str, str]:
    """The numbers with a unit that are said about a sound; empty for any other file, whose content says it better."""
    kind, *about = first_line.partition(": ")[2].partition(";")[0].split(", ")
    found = [_AMOUNT.fullmatch(part) for part in about] if kind == "sound" else []
    return {amount[2]: amount[1] for amount in found if amount}


def part_asked(text: str, question: str) -> str:
    """The page, slide or chapter that the question names by its number, if the text has it; else all of it."""
    for kind, number in _PART_ASKED.findall(question):
        part = re.search(rf"^\[{kind} {number} of \d+\].*?(?=^\[{kind} \d+ of \d+\]|\Z)", text, _PART_FLAGS)
        if part:
            return part[0]
    return text
