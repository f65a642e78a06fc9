"""Answers to questions, from their text or from what was read: computed, misread or made up."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import simpleeval
import yaml

from mas.runtime.text import parse_python
from mas.simulation.behaviour import Behaviour, draw_uniform

UNKNOWN = "unknown"
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"
_SYLLABLES = ("bel", "dor", "fen", "gal", "hol", "kar", "lin", "mar", "nor", "pol", "ras", "sel", "tor", "vin")
_DECIMALS = {"no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_UNIT = re.compile(
    r"\bhow many (?:of the |more )?([a-z]+)|\b(?:in|of) ([a-z]*(?:metres|grams|crowns|inches))", re.IGNORECASE
)
_SENTENCES = ("Based on the research, the final answer is {}.", "After working through the question, I arrive at {}.")
_EXTREME = re.compile(r"\b(most|highest|largest|latest|longest|least|lowest|fewest|smallest|cheapest|shortest)\b")
_DIFFERENCE = re.compile(r"\bdifference\b|\bhow many more\b|\bhow much more\b|\bby how (?:many|much)\b")
_TOTAL = re.compile(r"\b(?:total|add up|sum|altogether)\b")
_LIMIT = re.compile(r"\b(more than|over|at least|less than|fewer than|under) (\d+) (\w+)")
_SIGNS = (("times", "*"), ("plus", "+"), ("minus", "-"), ("divided by", "/"), ("x", "*"), ("^", "**"))
_ABSENT = re.compile(r" [-+*] (?:0 \* 0|0|\(1 - 0 / 100\))(?![\d.])")  # terms that a question lacks
_SUM = re.compile(r"[\d(][\d.()+\-*/% ]*[\d)]")


@dataclass(frozen=True)
class Finding:
    """Answer, calculation or conversion that answers a question: one of the first three is set."""

    answer: str = ""
    expression: str = ""
    conversion: tuple[str, str] | None = None  # quantity with its unit, unit wanted
    decimals: int | None = None
    why: str = "It follows from the question itself."


def compute(finding: Finding, slips: bool = False) -> str:
    """Return the value without a tool; `slips`: with an error. Units are not converted."""
    try:
        value = float(simpleeval.SimpleEval().eval("", parse_python(finding.expression.strip(), "eval").body))
    except (simpleeval.InvalidExpression, ArithmeticError, SyntaxError, TypeError, ValueError):
        return finding.answer or UNKNOWN
    return format_number(value + slips * 10 ** max(len(str(int(abs(value)))) - 2, 0), finding.decimals)


def misread(finding: Finding) -> Finding:
    """Return the finding with one number or name read wrongly."""
    answer, expression = shift_number(finding.answer), shift_number(finding.expression)
    quantity, unit = finding.conversion or ("", "")
    conversion = (shift_number(quantity), unit) if unit else None
    return replace(finding, answer=answer, expression=expression, conversion=conversion)


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
    """Return the number that begins a cell or an answer, without its unit; None: there is none."""
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


def solve(question: str, material: str = "") -> Finding | None:
    decimals = read_decimals(question)
    for (pattern,) in match_recipes("find", question):
        if found := re.search(pattern, material, re.DOTALL):
            return Finding(answer=found[1], decimals=decimals, why=f"It says: {found[0][-80:]}.")
    if " | " in material and (found_in_table := _look_up(question, _read_table(question, material))):
        return found_in_table
    if puzzle := _solve_puzzle(question):
        return Finding(answer=puzzle, why="Counted letter by letter.")
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", question)
    for quantity, unit in match_recipes("convert", plain):
        # A converter knows Celsius and gallons without the words before them.
        amount, wanted = (re.sub(r"\b(?:degrees|us liquid) ", "", text.lower()) for text in (quantity, unit))
        return Finding(conversion=(amount, wanted), decimals=decimals, why="A conversion of units.")
    expression = next((_ABSENT.sub("", text) for (text,) in match_recipes("calculate", plain)), _read_sum(plain))
    if expression:
        return Finding(expression=expression, decimals=decimals, why="A sum stated in the question.")
    return None


@cache
def read_recipes() -> dict[str, list[list[str]]]:
    text = Path(__file__).with_name("recipes.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)  # type: ignore[no-any-return]


def match_recipes(kind: str, question: str, **values: str) -> Iterator[list[str]]:
    """Yield the recipes that fit a question, its words in place of {0} and so on, `values` of names."""
    for pattern, *texts in read_recipes()[kind]:
        if found := re.search(pattern.replace("{N}", NUMBER), question, re.IGNORECASE):
            yield [text.format(*found.groups("0"), **values) for text in texts]


def _solve_puzzle(question: str) -> str:
    quoted = re.findall(r"[`'\"]([^`'\"]+)[`'\"]", question)
    if turned := re.search(r"written backwards[^.]*\. (.+)", question):
        listed = re.search(r"the (\w+) of \w+ words[^:]*: ([^.]+)", turned[1][::-1])
        places = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}
        return listed[2].split(", ")[places[listed[1]]] if listed else ""
    if re.search(r"\brevers|\bbackwards\b", question, re.IGNORECASE) and quoted:
        return str(quoted[-1][::-1])
    letter = re.search(r"\bletters? ['\"`]?(\w)\b", question)
    return str(quoted[-1].count(letter[1])) if letter and quoted else ""


def _read_sum(question: str) -> str:
    for name, sign in _SIGNS:
        question = re.sub(rf"(?<=[\d)])\s*{re.escape(name)}\s*(?=[\d(])", f" {sign} ", question)
    runs = [run for run in _SUM.findall(question) if re.search(r"\d\)*\s*(?:\*\*|[-+*/%])\s*\(*\d", run)]
    return max((run for run in runs if not re.fullmatch(r"[\d-]+", run)), key=len, default="")


def _read_table(question: str, text: str) -> list[list[str]]:
    """Return header and rows of a table, of a workbook those of the sheet that the question names."""
    sheets = re.split(r'^(?=sheet ")', text, flags=re.MULTILINE)
    named = [sheet for sheet in sheets if (name := re.match(r'sheet "([^"]+)"', sheet)) and name[1] in question]
    lines = [line.strip().strip("|") for line in "\n".join(named or sheets).splitlines() if " | " in line]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if not re.fullmatch(r"[\s|:-]+", line)]
    if rows and rows[0][0] == "row":
        rows = [row[1:] for row in rows]
        rows = rows[1:] if all(re.fullmatch("[A-Z]{1,2}", cell) for cell in rows[0]) else rows
    return [row for row in rows if len(row) == len(rows[0])]


def _look_up(question: str, table: list[list[str]]) -> Finding | None:
    """Return the answer from a table: a cell, an extreme, a total, a difference, names that fit."""
    if len(table) < 2:
        return None
    header, *rows = table
    asked, decimals = question.lower(), read_decimals(question)
    named = [row for row in rows if any(_names(cell, question) for cell in row)]
    if limit := _LIMIT.search(asked):
        return _list_fitting(asked, header, rows, limit)
    if extreme := _EXTREME.search(asked):
        measure = _choose_column(asked[extreme.end() :], header)
        least = extreme[1] in ("least", "lowest", "fewest", "smallest", "cheapest", "shortest")
        best = (min if least else max)(rows, key=lambda row: parse_number(row[measure]) or 0.0)
        wanted = min(range(len(header)), key=lambda index: _find_title(header[index], asked[: extreme.start()]))
        return Finding(answer=best[wanted], why=f"The {extreme[1]} {header[measure]} is {best[measure]}.")
    used = [index for index, cell in enumerate(named[0]) if _names(cell, question)] if named else []
    column = _choose_column(asked, header, used)
    cells = [row[column] for row in named or rows]
    if _DIFFERENCE.search(asked) and len(cells) == 2:
        high, low = sorted(cells, key=lambda cell: -(parse_number(cell) or 0.0))
        return Finding(expression=f"{high} - {low}", decimals=decimals, why="The difference of two cells.")
    if _TOTAL.search(asked):
        return Finding(expression=" + ".join(cells), decimals=decimals, why=f"Over {len(cells)} rows.")
    return Finding(answer=cells[0], why="Read from the row that fits the question.") if named else None


def _list_fitting(asked: str, header: list[str], rows: list[list[str]], limit: re.Match[str]) -> Finding:
    column = _choose_column(limit[3], header)
    sign = -1 if limit[1] in ("less than", "fewer than", "under") else 1
    edge = float(limit[2]) * sign - (limit[1] == "at least")
    wished = [index for index, title in enumerate(header) if title.lower() in asked and rows[0][index] in ("yes", "no")]
    fitting = [row for row in rows if sign * (parse_number(row[column]) or 0.0) > edge]
    names = [row[0] for row in fitting if all(row[index] == "yes" for index in wished)]
    if "alphabetical" in asked:
        names.sort(key=str.lower)
    return Finding(answer=", ".join(names), why=f"{len(names)} rows fit the condition.")


def _names(cell: str, question: str) -> bool:
    return bool(re.match(r"[A-Za-z]", cell) and re.search(rf"(?<!\w){re.escape(cell)}(?!\w)", question))


def _choose_column(asked: str, header: list[str], used: Collection[int] = ()) -> int:
    """Return the column whose title shares most words with the text; `used` ones come last."""
    words = {_stem(word) for word in re.findall(r"[a-z]+", asked)}
    scores = []
    for index, title in enumerate(header):
        parts = [_stem(part) for part in re.findall(r"[a-z]+", title.lower())]
        scores.append(sum(part in words for part in parts) / max(len(parts), 1) - (index in used))
    return scores.index(max(scores))


def _find_title(title: str, asked: str) -> int:
    """Return the position in the text of a title's first word; the text's end if it is missing."""
    found = re.search(rf"\b{_stem(re.split(r'[^a-z]', title.lower())[0])}", asked)
    return found.start() if found else len(asked)


def _stem(word: str) -> str:
    return re.sub(r"(?:ing|ed|e|s)$", "", word) if len(word) > 4 else word
