"""Tables in text: rows of cells separated by ` | `, as the file reader prints CSV and Excel files.

table = read_tables("Item | Price\\nPen | 2\\nInk | 9")[0]
select_rows("What does the pen cost?", table)       # [["Pen", "2"]]
score_columns("What is the price?", table)          # [0.0, 1.1]
"""

import re
from dataclasses import dataclass

from mas.simulation.solving.wording import find_phrase, parse_number, split_words

_SHEET = re.compile(r"\bsheet\b\W{0,4}([^\n'\"|]+?)['\"]?\s*(?:\(.*|[,;:].*|=+|-+|\]+)?$", re.IGNORECASE)
# Words of a question, and words in the titles of the columns that they suggest.
_HINTS: dict[str, str] = {
    "expensive": "price cost amount",
    "cheapest": "price cost amount",
    "cost": "price",
    "oldest": "age born birth year founded built date",
    "youngest": "age born birth year",
    "newest": "year founded built date",
    "earliest": "date year time founded",
    "latest": "date year time",
    "heaviest": "weight mass kg",
    "lightest": "weight mass kg",
    "tallest": "height m",
    "highest": "height elevation altitude",
    "longest": "length duration minute km",
    "shortest": "length duration height",
    "largest": "area size population",
    "populous": "population inhabitant",
    "fastest": "speed time",
    "sold": "sale unit quantity",
    "earn": "salary revenue income",
    "paid": "salary price pay",
}


@dataclass(frozen=True)
class Table:
    name: str  # the sheet's name, or empty
    header: list[str]
    rows: list[list[str]]
    row_numbers: list[str]  # of a spreadsheet; empty for other tables
    header_number: str = ""

    def text(self) -> str:
        """Return the table as text that `read_tables` can read."""
        lines = [f"Sheet: {self.name}"] if self.name else []
        if self.row_numbers:
            letters = [chr(ord("A") + index) for index in range(len(self.header))]
            lines += [" | ".join(["row", *letters]), " | ".join([self.header_number, *self.header])]
            return "\n".join(
                lines + [" | ".join([n, *row]) for n, row in zip(self.row_numbers, self.rows, strict=True)]
            )
        return "\n".join([*lines, " | ".join(self.header), *(" | ".join(row) for row in self.rows)])

    def is_numeric(self, column: int) -> bool:
        cells = [row[column] for row in self.rows if row[column]]
        return bool(cells) and sum(parse_number(cell) is not None for cell in cells) * 2 > len(cells)


def read_tables(text: str) -> list[Table]:
    """Return the tables of a text; lines without ` | ` separate them and may name the sheet."""
    found: list[Table] = []
    block: list[list[str]] = []
    name = ""
    for line in [*text.splitlines(), ""]:
        if " | " in line or (block and line.strip().startswith("|")):
            block.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if len(block) > 1:
            found.append(_create_table(name, block))
        block = []
        if match := _SHEET.search(line):
            name = match[1].strip()
    return found


def _create_table(name: str, block: list[list[str]]) -> Table:
    block = [row for row in block if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    block = [[re.sub(r" \[[^\]]*\]$", "", cell) for cell in row] for row in block]  # marks such as [hidden row]
    if len(block) > 1 and all(re.fullmatch(r"[A-Z]{1,2}", cell) for cell in block[0][1:]) and block[0][1:]:
        start = next((i for i, row in enumerate(block) if i and sum(map(bool, row)) > 2), 1)  # below the title rows
        header, body = block[start], block[start + 1 :]
        width = len(header) - 1
        rows = [_pad(row[1:], width) for row in body]
        return Table(name, header[1:], rows, [row[0] for row in body], header[0])
    if block[0][0] == "row" and all(row[0].isdigit() for row in block[1:]):
        block = [row[1:] for row in block]  # row numbers are no column of the file
    return Table(name, block[0], [_pad(row, len(block[0])) for row in block[1:]], [])


def _pad(row: list[str], width: int) -> list[str]:
    return (row + [""] * width)[:width]


def find_filters(question: str, table: Table) -> dict[int, list[str]]:
    """Return, per column, the values that the question names, in the question's order."""
    asked = set(split_words(question))
    named: dict[int, list[str]] = {}
    for column, title in enumerate(table.header):
        identifies = (
            column == 0
            or bool({"year", "id", "month", "date"} & set(split_words(title)))
            or asked >= set(split_words(title))
        )
        values = {row[column] for row in table.rows if len(row[column]) > 1 or (identifies and row[column])}
        hits = [v for v in values if (identifies or parse_number(v) is None) and find_phrase(v, question) >= 0]
        hits = [v for v in hits if not any(v != other and find_phrase(v, other) >= 0 for other in hits)]
        if hits:
            named[column] = sorted(hits, key=lambda value: find_phrase(value, question))
    return named


def select_rows(question: str, table: Table, named: dict[int, list[str]] | None = None) -> list[list[str]]:
    """Return the rows that match all values that the question names; all rows if it names none."""
    named = find_filters(question, table) if named is None else named
    lowered = {column: {value.lower() for value in values} for column, values in named.items()}
    rows = [row for row in table.rows if all(row[c].lower() in values for c, values in lowered.items())]
    if rows or not named:
        return rows or table.rows
    weakest = max(named)  # columns further right rarely identify a row
    return select_rows(question, table, {c: values for c, values in named.items() if c != weakest})


def score_columns(question: str, table: Table) -> list[float]:
    """Score each column by the words that it shares with the question."""
    asked = split_words(question)
    hinted = {word for key, hint in _HINTS.items() if key in question.lower() for word in split_words(hint)}
    scores = []
    for title in table.header:
        parts = split_words(title) or [title.lower()]
        direct = sum(part in asked for part in parts)
        scores.append(direct / len(parts) + 0.1 * direct + 0.3 * any(part in hinted for part in parts))
    return scores


def select_sheets(question: str, found: list[Table]) -> list[Table]:
    """Return the tables whose sheet the question names; else the one that shares most words with it."""
    named = [table for table in found if table.name and find_phrase(table.name, question) >= 0]
    if named:
        return sorted(named, key=lambda table: find_phrase(table.name, question))
    scored = [(sum(score_columns(question, t)) + 2 * len(find_filters(question, t)), t) for t in found if t.rows]
    best = max((score for score, _ in scored), default=0.0)
    return [table for score, table in scored if score == best][:1]
