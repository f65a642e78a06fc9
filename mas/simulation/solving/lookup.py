"""Answers from tables: a cell, an extreme, a total, a count, a difference, a list of names.

    look_up("Which item costs most?", read_tables("Item | Price\\nPen | 2\\nInk | 9"))     # Finding(answer="Ink")

`misreads` causes a mistake: the second best column is used instead of the best.
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


def look_up(question: str, found: list[Table], misreads: bool = False) -> Finding | None:
    """Return the answer; None if the tables do not contain it."""
    usable = [table for table in found if table.rows]
    chosen = select_sheets(question, usable)
    if not chosen:
        return None
    if len(chosen) > 1 and re.search(_DIFFERENCE, question, re.IGNORECASE):
        return _subtract(question, [value for t in chosen for value in _read_values(question, t, misreads)[:1]])
    return _look_up_in_table(question, chosen[0], misreads)


def _look_up_in_table(question: str, table: Table, misreads: bool) -> Finding | None:
    asked = question.lower()
    conditions = _read_conditions(question, table)
    named = find_filters(_CONDITION.sub(" ", question), table)  # a limit is not a value of a cell
    rows = [row for row in select_rows(question, table, named) if all(test(row) for _, test in conditions)]
    if re.search(_DIFFERENCE, asked):
        return _subtract(question, _read_values(question, table, misreads))
    if re.search(_MOST, asked) or re.search(_LEAST, asked):
        return _find_extreme(question, table, rows, named, misreads)
    if re.search(_AVERAGE, asked) or re.search(_TOTAL, asked):
        return _sum_up(question, table, rows, named, misreads)
    if conditions or re.search(_LIST, asked):
        return _list_names(question, table, rows, [column for column, _ in conditions] + list(named))
    if re.search(r"how many", asked) and max(score_columns(_remove_values(question, named), table)) < 0.5:
        return Finding(answer=str(len(rows)), why=f"{len(rows)} rows fit.")
    values = _read_values(question, table, misreads)
    return Finding(answer=values[0], why="Read from the row that fits the question.") if values else None


def _read_values(question: str, table: Table, misreads: bool) -> list[str]:
    """Return the chosen column's cell of each row that the question names, in the question's order."""
    named = find_filters(question, table)
    column = _choose_column(question, table, set(named), misreads)
    rows = select_rows(question, table, named)
    order = {value: find_phrase(value, question) for values in named.values() for value in values}
    return [row[column] for row in sorted(rows, key=lambda row: max((order.get(cell, -1) for cell in row), default=0))]


def _choose_column(question: str, table: Table, used: set[int], misreads: bool, numeric: bool = False) -> int:
    scores = score_columns(question, table)
    for column in range(len(scores)):
        scores[column] -= (
            5.0 * (column in used) + 3.0 * (numeric and not table.is_numeric(column)) + 0.01 * (column == 0)
        )
    ranked = sorted(range(len(scores)), key=lambda column: -scores[column])
    return ranked[1] if misreads and len(ranked) > 1 else ranked[0]


def _find_extreme(
    question: str, table: Table, rows: list[list[str]], named: dict[int, list[str]], misreads: bool
) -> Finding | None:
    measure = _choose_column(question, table, set(named), misreads, numeric=_has_numbers(table, set(named)))
    least = bool(re.search(_LEAST, question, re.IGNORECASE))
    if re.search(r"\boldest|youngest\b", question, re.IGNORECASE):
        by_age = "age" in split_words(table.header[measure])
        least = by_age == bool(re.search("youngest", question, re.IGNORECASE))
    rows = [row for row in rows if row[measure]]
    if not rows:
        return None
    best = (min if least else max)(rows, key=lambda row: _sort_key(row[measure]))
    wanted = _choose_answer_column(question, table, measure)
    return Finding(
        answer=best[wanted], why=f"The {'lowest' if least else 'highest'} {table.header[measure]} is {best[measure]}."
    )


def _choose_answer_column(question: str, table: Table, measure: int) -> int:
    """Return the column after `which` or `what` in the question, else the first that is not numeric."""
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


def _sum_up(
    question: str, table: Table, rows: list[list[str]], named: dict[int, list[str]], misreads: bool
) -> Finding | None:
    column = _choose_column(question, table, set(named), misreads, numeric=True)
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


def _subtract(question: str, values: list[str]) -> Finding | None:
    numbers = [value for text in values if (value := parse_number(text)) is not None]
    if len(numbers) < 2:
        return None
    high, low = max(numbers[:2]), min(numbers[:2])
    return Finding(
        expression=f"{high:.10g} - {low:.10g}", decimals=read_decimals(question), why="The difference of two cells."
    )


def _list_names(question: str, table: Table, rows: list[list[str]], used: list[int]) -> Finding | None:
    if re.search(r"how many", question, re.IGNORECASE):
        return Finding(answer=str(len(rows)), why=f"{len(rows)} rows fit.")
    column = _choose_answer_column(question, table, used[0] if used else -1)
    names = [row[column] for row in rows]
    ordered = sorted(names, key=str.lower) if re.search("alphabetical", question, re.IGNORECASE) else names
    return Finding(answer=", ".join(ordered), why=f"{len(names)} rows fit the condition.") if names else None


def _read_conditions(question: str, table: Table) -> list[tuple[int, Callable[[list[str]], bool]]]:
    """Return each condition (`more than 40`) as a column and a test of one row."""
    found = []
    for match in _CONDITION.finditer(question):
        word, limit = match[1].lower(), float(match[2].replace(",", ""))
        column = _choose_condition_column(question, match.start(), table)
        found.append((column, _test_limit(column, _choose_comparison(word), limit)))
    return found + _read_yes_or_no(question, table)


def _read_yes_or_no(question: str, table: Table) -> list[tuple[int, Callable[[list[str]], bool]]]:
    """Return a test for each yes/no column that the question mentions, as in `without a harbour`."""
    found = []
    for column, title in enumerate(table.header):
        place = find_phrase(title.replace("_", " "), question)
        if place < 0 or not {row[column].lower() for row in table.rows} <= _YES | _NO:
            continue
        denied = re.search(r"\b(no|not|without)\W+(?:an?\W+|the\W+)?$", question[:place], re.IGNORECASE)
        found.append((column, _test_yes_or_no(column, _NO if denied else _YES)))
    return found


def _test_yes_or_no(column: int, words_allowed: frozenset[str]) -> Callable[[list[str]], bool]:
    return lambda row: row[column].lower() in words_allowed


def _choose_comparison(word: str) -> Callable[[float, float], bool]:
    if word in ("at least", "no less than"):
        return operator.ge
    if word in ("at most", "no more than"):
        return operator.le
    if word in ("exactly", "equal to"):
        return operator.eq
    return operator.lt if word.startswith(_BELOW) else operator.gt


def _test_limit(column: int, compare: Callable[[float, float], bool], limit: float) -> Callable[[list[str]], bool]:
    def fits(row: list[str]) -> bool:
        value = parse_number(row[column])
        return value is not None and compare(value, limit)

    return fits


def _choose_condition_column(question: str, place: int, table: Table) -> int:
    """Return the numeric column whose words are nearest to the condition, or that its adjective suggests."""
    near = score_columns(question[max(0, place - 40) : place + 50], table)
    wide = score_columns(question, table)
    scores = [2 * near[c] + wide[c] - 9.0 * (not table.is_numeric(c)) for c in range(len(table.header))]
    return scores.index(max(scores))


def _has_numbers(table: Table, used: set[int]) -> bool:
    return any(table.is_numeric(column) for column in range(len(table.header)) if column not in used)


def _sort_key(cell: str) -> tuple[int, float, str]:
    value = parse_number(cell)
    return (1, value, "") if value is not None else (0, 0.0, cell)  # dates as YYYY-MM-DD sort as text


def _remove_values(question: str, named: dict[int, list[str]]) -> str:
    for values in named.values():
        for value in values:
            question = re.sub(re.escape(value), " ", question, flags=re.IGNORECASE)
    return question
