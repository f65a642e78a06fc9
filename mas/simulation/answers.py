"""Values of the simulated agents: computed exactly or in the head, misread, made up, and put into the asked form.

compute(Finding(expression="17 * 23"))                  # "391"
compute(Finding(expression="17 * 23"), slips=True)      # "401"
format_answer("How many kilograms are left? …", "5611.614", behaviour)     # "5611.61", if all goes well
"""

import re
from dataclasses import dataclass, replace

import simpleeval

from mas.simulation.behaviour import Behaviour, draw_uniform

UNKNOWN = "unknown"
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"
_SYLLABLES = ("bel", "dor", "fen", "gal", "hol", "kar", "lin", "mar", "nor", "pol", "ras", "sel", "tor", "vin")
_DECIMALS = {"no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_UNIT = re.compile(
    r"\bhow many (?:of the |more )?([a-z]+)|\b(?:in|of) ([a-z]*(?:metres|grams|crowns|inches))", re.IGNORECASE
)
_SENTENCES = ("Based on the research, the final answer is {}.", "After working through the question, I arrive at {}.")


@dataclass(frozen=True)
class Finding:
    """Answer, calculation or conversion that answers a question: one of the first three is set."""

    answer: str = ""
    expression: str = ""
    conversion: tuple[str, str] | None = None  # quantity with its unit, unit wanted
    decimals: int | None = None
    why: str = "It follows from the question itself."


def compute(finding: Finding, slips: bool = False) -> str:
    """Return the value without a tool; `slips`: with an error in proportion to its size. Units are not converted."""
    value = evaluate(finding.expression)
    if value is None:
        return finding.answer or UNKNOWN
    return format_number(value + slips * 10 ** max(len(str(int(abs(value)))) - 2, 0), finding.decimals)


def evaluate(expression: str) -> float | None:
    """Return the value of an expression; None if it cannot be evaluated."""
    try:
        return float(simpleeval.simple_eval(expression))
    except (simpleeval.InvalidExpression, ArithmeticError, SyntaxError, TypeError, ValueError):
        return None


def misread(finding: Finding) -> Finding:
    """Return the finding with one number or name read wrongly."""
    quantity, unit = finding.conversion or ("", "")
    wrong = (shift_number(quantity), unit) if unit else None
    return replace(
        finding, answer=shift_number(finding.answer), expression=shift_number(finding.expression), conversion=wrong
    )


def shift_number(text: str) -> str:
    """Add one to the last whole number of a text; without any, swap its first two letters."""
    start, number, end = re.fullmatch(r"(?s)(.*?)(\d*)(\D*)", text).groups()  # type: ignore[union-attr]
    return f"{start}{int(number) + 1:0{len(number)}}{end}" if number else text[1::-1] + text[2:]


def round_numbers(text: str) -> str:
    """Round every number of three or more digits to its first two."""

    def round_match(match: re.Match[str]) -> str:
        digits = match[0].replace(",", "").split(".")[0]
        size = 10 ** max(len(digits) - 2, 1)
        return f"about {round(int(digits) / size) * size}"

    return re.sub(r"(?<![\w.-])\d[\d,]{2,}(?:\.\d+)?(?![\w-])", round_match, text)


def invent_value(question: str) -> str:
    """Return a wrong value of the right kind, the same for the same question."""
    if re.search(r"\bhow (?:many|much|often)|number|total|figure|convert|express|\bvalue\b", question, re.IGNORECASE):
        return str(100 + int(draw_uniform(question) * 9000))
    parts = (int(draw_uniform(f"{part}\n{question}") * len(_SYLLABLES)) for part in (0, 1))
    return "".join(_SYLLABLES[part] for part in parts).title()


def parse_number(text: str) -> float | None:
    """Return the number of a cell or an answer, without what counts it; None if it does not begin with one."""
    found = re.match(rf"(?:about )?\$?({NUMBER})(?:$| [^\d\s,]+)", text.strip())
    return float(found[1].replace(",", "")) if found else None


def read_decimals(question: str) -> int | None:
    """Return the decimal places that the question asks for; None: it does not say."""
    found = re.search(r"(\w+) (?:decimal|digits? after)|\b(?:whole|integer) number", question, re.IGNORECASE)
    word = (found[1] or "no").lower() if found else ""
    return int(word) if word.isdigit() else _DECIMALS.get(word)


def format_number(value: float, decimals: int | None) -> str:
    """Format a number as an answer: rounded if asked, else without superfluous digits."""
    if decimals is None:
        return f"{value:.10g}" if abs(value) < 1e15 else f"{value:.0f}"
    return f"{value + (1e-9 if value >= 0 else -1e-9):.{decimals}f}"


def wants_list(question: str) -> bool:
    return bool(re.search(r"\blist\b|separated|alphabetical|\bnames\b", question, re.IGNORECASE))


def format_answer(question: str, given: str, behaviour: Behaviour) -> str:
    """Return the answer in its final form; each rule of form is followed or forgotten."""
    answer, value = given, parse_number(given)
    if value is not None:
        answer = _format_number(question, value, behaviour)
    elif wants_list(question) and ", " in given:
        items = given.split(", ")
        if not behaviour.follows("comma_separated_list_in_the_asked_order"):
            answer = f"{', '.join(items[:-1])} and {items[-1]}"
    if behaviour.follows("answer_with_few_words_no_prose"):
        return answer
    return _SENTENCES[behaviour.pick(len(_SENTENCES), "sentence")].format(answer)


def _format_number(question: str, value: float, behaviour: Behaviour) -> str:
    rounds = behaviour.follows("follow_the_rounding_asked_for")
    answer = format_number(value, read_decimals(question) if rounds else None)
    if abs(value) >= 1000 and not behaviour.follows("no_thousands_separators"):
        whole, point, rest = answer.partition(".")
        answer = f"{int(whole):,}{point}{rest}"
    if behaviour.follows("leave_out_units_unless_asked"):
        return answer
    unit = _UNIT.search(question)
    return f"{answer} {unit[1] or unit[2]}" if unit else f"{answer} units"
