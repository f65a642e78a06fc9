"""Form of an answer: number or list, unit, rounding, separators, prose; each rule is followed or forgotten.

format_answer("How many kilograms are left? …", "5611.614 kilograms", behaviour)     # "5611.61", if all goes well
"""

import re

from mas.simulation.skills.behaviour import Behaviour
from mas.simulation.solving.wording import format_number, parse_number, read_decimals

_AMOUNT = re.compile(r"^(?:about |roughly )?([-+]?\$?\d[\d,]*(?:\.\d+)?)\s*([^\d\s].*)?$")
_SENTENCES = (
    "Based on the research, the final answer is {}.",
    "The answer is {}, as the work above shows.",
    "After working through the question, I arrive at {}.",
)


def format_answer(question: str, given: str, behaviour: Behaviour) -> str:
    """Return the answer in the finalizer's form."""
    parted = _AMOUNT.match(given)
    if parted and (value := parse_number(parted[1])) is not None:
        answer = _format_number(question, parted[1], value, (parted[2] or "").strip(), behaviour)
    elif wants_list(question) and ", " in given:
        answer = _format_list(question, given, behaviour)
    else:
        answer = given
    if behaviour.follows("answer_with_few_words_no_prose"):
        return answer
    return _SENTENCES[behaviour.pick(len(_SENTENCES), "sentence")].format(answer)


def add_unit(question: str, value: str) -> str:
    """Append the unit that the question mentions, if there is one, to a number."""
    unit = find_unit(question)
    return f"{value} {unit}" if unit and parse_number(value) is not None else value


def find_unit(question: str) -> str:
    """Return the thing counted or measured: `kilograms` of `how many kilograms are left`; empty if there is none."""
    for pattern in (
        r"\bhow many (?:of the |more )?([a-z]+)",
        r"\b(?:to|in|into) (degrees [a-z]+|us liquid gallons|kilometres per hour"
        r"|[a-z]*(?:metres|grams|miles|litres|feet)"
        r"|inches|pounds|knots|gallons|crowns)\b",
        r"\bnumber of ([a-z]+)",
        r"\bthe ([a-z]+) (?:received|shipped)",
        r"\bof (crowns)\b",
    ):
        if match := re.search(pattern, question, re.IGNORECASE):
            return "" if match[1].lower() in ("are", "is", "of", "do", "does", "did", "the") else match[1]
    return ""


def wants_unit(question: str) -> bool:
    return bool(re.search(r"\b(?:with|including|give|state|include) (?:its |the )units?\b", question, re.IGNORECASE))


def wants_list(question: str) -> bool:
    return bool(
        re.search(r"\blist\b|separated|alphabetical|\bnames\b|from the (?:most|fewest)", question, re.IGNORECASE)
    )


def reverse_list(text: str) -> str:
    """Return the items in reverse order."""
    return ", ".join(reversed(text.split(", ")))


def _format_number(question: str, text: str, value: float, unit: str, behaviour: Behaviour) -> str:
    decimals = read_decimals(question)
    rounds = decimals is not None and behaviour.follows("follow_the_rounding_asked_for")
    answer = format_number(value, decimals) if rounds else text.replace(",", "").lstrip("$")
    if abs(value) >= 1000 and not behaviour.follows("no_thousands_separators"):
        whole, point, rest = answer.partition(".")
        answer = f"{int(whole):,}".replace(",", (" ", ",")[behaviour.pick(3, "separator") == 2]) + point + rest
    if wants_unit(question):
        return f"{answer} {unit}".strip()
    if behaviour.follows("leave_out_units_unless_asked"):
        return answer
    return f"{answer} {unit or find_unit(question)}".strip()


def _format_list(question: str, given: str, behaviour: Behaviour) -> str:
    items = given.split(", ")
    if behaviour.follows("comma_separated_list_in_the_asked_order"):
        return ", ".join(sorted(items, key=str.lower) if "alphabetical" in question.lower() else items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
