"""Answering a question from tables: a cell, an extreme, a total, a count, a difference, a list of names.

    look_up("Which item has the highest price?", tables("Item | Price\\nPen | 2\\nInk | 9"))   # Finding(answer="Ink")

`slip` is the reader's mistake: the second best column instead of the best.
"""

import operator
import re
from collections.abc import Callable

from mas.simulation.solving.self_contained import Finding
from mas.simulation.solving.tables import Table, find_filters, score_columns, select_rows, select_sheets
from mas.simulation.solving.wording import find_phrase, parse_number, read_decimals, split_words

_MOST = (
    r"\b(highest|largest|(?<!at )most|maximum|greatest|biggest|best|top|latest|newest|longest|heaviest|tallest"
    r"|fastest|deepest)\b"
)
_LEAST = (
    r"\b(lowest|smallest|(?<!at )least|fewest|minimum|cheapest|earliest|shortest|lightest|slowest|worst"
    r"|oldest|youngest)\b"
)
_TOTAL = r"\b(total|add up|sum|altogether|combined|overall|in all)\b"
_AVERAGE = r"\b(average|mean)\b"
_DIFFERENCE = (
    r"\bdifference\b|\bby how (?:many|much)\b|\bchange[sd]? (?:from|between)\b"
    r"|\bhow (?:many|much) (?:more|less|fewer|higher|lower|taller|longer|heavier|larger)\b"
)
_LIST = r"\blist (?:the|all|every|of)\b|\balphabetical|\bcomma[- ]separated|\bnames of\b|\bwhich .* (?:are|have|were)\b"
_UNITS = r"(?:\s*(?:or more|or less|or fewer|or above|or below|or higher|or lower))?"
_CONDITION = re.compile(
    r"((?:more|greater|higher|larger|longer|heavier|older|less|fewer|lower|smaller|shorter|lighter|younger) than"
    r"|exceeds?|exceeding|over|above|after|at least|no less than|under|below|before|at most|no more than"
    r"|exactly|equal to)"
    rf" (?:an? |the )?\$?(\d[\d,]*(?:\.\d+)?){_UNITS}",
    re.IGNORECASE,
)
_YES, _NO = frozenset({"yes", "true", "y"}), frozenset({"no", "false", "n"})
_BELOW = ("less", "fewer", "lower", "smaller", "shorter", "lighter", "younger", "under", "below", "before")


def look_up(question: str, found: list[Table], slip: bool = False) -> Finding | None:
    """None if the tables hold nothing that the question asks for."""
    usable = [table for table in found if table.rows]
    if cells := _referenced_cells(question, usable):
        return _of_cells(question, cells)
    chosen = select_sheets(question, usable)
    if not chosen:
        return None
    if len(chosen) > 1 and re.search(_DIFFERENCE, question, re.IGNORECASE):
        return _difference(question, [value for t in chosen for value in _values(question, t, slip)[:1]])
    return _in_table(question, chosen[0], slip)


def _in_table(question: str, table: Table, slip: bool) -> Finding | None:
    asked = question.lower()
    conditions = _conditions(question, table)
    named = find_filters(_CONDITION.sub(" ", question), table)  # a limit is no value to look for
    rows = [row for row in select_rows(question, table, named) if all(test(row) for _, test in conditions)]
    if re.search(_DIFFERENCE, asked):
        return _difference(question, _values(question, table, slip))
    if re.search(_MOST, asked) or re.search(_LEAST, asked):
        return _extreme(question, table, rows, named, slip)
    if re.search(_AVERAGE, asked) or re.search(_TOTAL, asked):
        return _total(question, table, rows, named, slip)
    if conditions or re.search(_LIST, asked):
        return _names(question, table, rows, [column for column, _ in conditions] + list(named))
    if re.search(r"how many", asked) and max(score_columns(_without(question, named), table)) < 0.5:
        return Finding(answer=str(len(rows)), why=f"{len(rows)} rows fit.")
    values = _values(question, table, slip)
    return Finding(answer=values[0], why="Read from the row that fits the question.") if values else None


def _values(question: str, table: Table, slip: bool) -> list[str]:
    """The asked column's cell in each row that the question names, in the question's order."""
    named = find_filters(question, table)
    column = _target(question, table, set(named), slip)
    rows = select_rows(question, table, named)
    order = {value: find_phrase(value, question) for values in named.values() for value in values}
    return [row[column] for row in sorted(rows, key=lambda row: max((order.get(cell, -1) for cell in row), default=0))]


def _target(question: str, table: Table, used: set[int], slip: bool, numeric: bool = False) -> int:
    scores = score_columns(question, table)
    for column in range(len(scores)):
        scores[column] -= (
            5.0 * (column in used) + 3.0 * (numeric and not table.is_numeric(column)) + 0.01 * (column == 0)
        )
    ranked = sorted(range(len(scores)), key=lambda column: -scores[column])
    return ranked[1] if slip and len(ranked) > 1 else ranked[0]


def _extreme(
    question: str, table: Table, rows: list[list[str]], named: dict[int, list[str]], slip: bool
) -> Finding | None:
    measure = _target(question, table, set(named), slip, numeric=_has_numbers(table, set(named)))
    least = bool(re.search(_LEAST, question, re.IGNORECASE))
    if re.search(r"\boldest|youngest\b", question, re.IGNORECASE):
        by_age = "age" in split_words(table.header[measure])
        least = by_age == bool(re.search("youngest", question, re.IGNORECASE))
    rows = [row for row in rows if row[measure]]
    if not rows:
        return None
    best = (min if least else max)(rows, key=lambda row: _order(row[measure]))
    wanted = _asked_for(question, table, measure)
    return Finding(
        answer=best[wanted], why=f"The {'lowest' if least else 'highest'} {table.header[measure]} is {best[measure]}."
    )


def _asked_for(question: str, table: Table, measure: int) -> int:
    """The column of the thing asked for: named after `which` or `what`, else the first name column."""
    opening = re.search(
        r"\b(?:which|what|whose|who is the|who was the|name (?:of )?the)\b(.{0,40})", question, re.IGNORECASE
    )
    asked = split_words(opening[1]) if opening else []
    if re.search(r"\bwhat (?:is|was) the (?:highest|lowest|largest|smallest|maximum|minimum)", question, re.IGNORECASE):
        return measure
    for word in asked:
        for column, title in enumerate(table.header):
            if column != measure and word in split_words(title):
                return column
    others = [column for column in range(len(table.header)) if column != measure and not table.is_numeric(column)]
    return others[0] if others else 0


def _total(
    question: str, table: Table, rows: list[list[str]], named: dict[int, list[str]], slip: bool
) -> Finding | None:
    column = _target(question, table, set(named), slip, numeric=True)
    numbers = [value for row in rows if (value := parse_number(row[column])) is not None]
    if not numbers:
        return None
    terms = " + ".join(f"{value:.10g}" for value in numbers)
    mean = re.search(_AVERAGE, question, re.IGNORECASE)
    expression = f"({terms}) / {len(numbers)}" if mean else terms
    return Finding(
        expression=expression,
        decimals=read_decimals(question),
        why=f"Over {len(numbers)} rows of {table.header[column]}.",
    )


def _difference(question: str, values: list[str]) -> Finding | None:
    numbers = [value for text in values if (value := parse_number(text)) is not None]
    if len(numbers) < 2:
        return None
    high, low = max(numbers[:2]), min(numbers[:2])
    return Finding(
        expression=f"{high:.10g} - {low:.10g}", decimals=read_decimals(question), why="The difference of two cells."
    )


def _names(question: str, table: Table, rows: list[list[str]], used: list[int]) -> Finding | None:
    if re.search(r"how many", question, re.IGNORECASE):
        return Finding(answer=str(len(rows)), why=f"{len(rows)} rows fit.")
    column = _asked_for(question, table, used[0] if used else -1)
    names = [row[column] for row in rows]
    ordered = sorted(names, key=str.lower) if re.search("alphabetical", question, re.IGNORECASE) else names
    return Finding(answer=", ".join(ordered), why=f"{len(names)} rows fit the condition.") if names else None


def _conditions(question: str, table: Table) -> list[tuple[int, Callable[[list[str]], bool]]]:
    """Each `more than 40` of the question as a column and a test of one row."""
    found = []
    for match in _CONDITION.finditer(question):
        word, limit = match[1].lower(), float(match[2].replace(",", ""))
        column = _condition_column(question, match.start(), table)
        found.append((column, _test(column, _comparison(word), limit)))
    return found + _yes_or_no(question, table)


def _yes_or_no(question: str, table: Table) -> list[tuple[int, Callable[[list[str]], bool]]]:
    """A test for each column of yes and no that the question mentions, as in `without a harbour`."""
    found = []
    for column, title in enumerate(table.header):
        place = find_phrase(title.replace("_", " "), question)
        if place < 0 or not {row[column].lower() for row in table.rows} <= _YES | _NO:
            continue
        denied = re.search(r"\b(no|not|without)\W+(?:an?\W+|the\W+)?$", question[:place], re.IGNORECASE)
        found.append((column, _says(column, _NO if denied else _YES)))
    return found


def _says(column: int, words_allowed: frozenset[str]) -> Callable[[list[str]], bool]:
    return lambda row: row[column].lower() in words_allowed


def _comparison(word: str) -> Callable[[float, float], bool]:
    if word in ("at least", "no less than"):
        return operator.ge
    if word in ("at most", "no more than"):
        return operator.le
    if word in ("exactly", "equal to"):
        return operator.eq
    return operator.lt if word.startswith(_BELOW) else operator.gt


def _test(column: int, compare: Callable[[float, float], bool], limit: float) -> Callable[[list[str]], bool]:
    def fits(row: list[str]) -> bool:
        value = parse_number(row[column])
        return value is not None and compare(value, limit)

    return fits


def _condition_column(question: str, place: int, table: Table) -> int:
    """The numeric column whose words stand nearest to the condition, or that its adjective hints at."""
    near = score_columns(question[max(0, place - 40) : place + 50], table)
    wide = score_columns(question, table)
    scores = [2 * near[c] + wide[c] - 9.0 * (not table.is_numeric(c)) for c in range(len(table.header))]
    return scores.index(max(scores))


def _referenced_cells(question: str, found: list[Table]) -> list[str]:
    references = re.findall(r"\bcells? ([A-Z]\d+)|(?:\band|,|to) ([A-Z]\d+)\b", question)
    if not references:
        return []
    named = [table for table in select_sheets(question, found) if table.row_numbers] or found
    cells = [
        named[min(i, len(named) - 1)].cell(first or second) for i, (first, second) in enumerate(references) if named
    ]
    return [cell for cell in cells if cell is not None]


def _of_cells(question: str, cells: list[str]) -> Finding | None:
    if re.search(_DIFFERENCE, question, re.IGNORECASE) and len(cells) > 1:
        return _difference(question, cells)
    return Finding(answer=cells[0], why="Read from the cell that the question names.")


def _has_numbers(table: Table, used: set[int]) -> bool:
    return any(table.is_numeric(column) for column in range(len(table.header)) if column not in used)


def _order(cell: str) -> tuple[int, float, str]:
    value = parse_number(cell)
    return (1, value, "") if value is not None else (0, 0.0, cell)  # dates as YYYY-MM-DD sort as text


def _without(question: str, named: dict[int, list[str]]) -> str:
    for values in named.values():
        for value in values:
            question = re.sub(re.escape(value), " ", question, flags=re.IGNORECASE)
    return question
