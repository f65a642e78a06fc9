"""Workbooks whose answer lies in what Excel shows beside values: colours, comments, formulas, what is hidden.

FAMILIES["xlsx_comment"](random.Random(1), 1).question     # "Whose name does the comment on the tonnes of …"
"""

import io
from random import Random
from typing import Any

from scripts.sample_data.office import without_times
from scripts.sample_data.toy import Drawn, Family, draw_names

HEADER = ("ship", "tonnes", "crew")
SHIPS = 7


def _harbour(rng: Random) -> tuple[Any, Any, list[str]]:
    """A workbook with one sheet of ships and its figures, from row 2 on; the sheet; the ships."""
    import openpyxl

    wharf, *ships = draw_names(rng, SHIPS + 1)
    book = openpyxl.Workbook()
    book.worksheets[0].title = wharf
    _fill(rng, book.worksheets[0], ships)
    return book, book.worksheets[0], ships


def _fill(rng: Random, sheet: Any, ships: list[str]) -> None:
    sheet.append(HEADER)
    for ship in ships:
        sheet.append([ship, rng.randint(900, 9900), rng.randint(101, 890)])


def _drawn(book: Any, question: str, answer: object) -> Drawn:
    written = io.BytesIO()
    book.save(written)
    return Drawn(question, str(answer), 1, ".xlsx", without_times(written))


def xlsx_fill(rng: Random, difficulty: int) -> Drawn:
    from openpyxl.styles import PatternFill

    book, sheet, _ = _harbour(rng)
    colour = f"{rng.randrange(0x100000, 0xFFFFFF):06X}"
    row = rng.randrange(2, SHIPS + 2)
    sheet.cell(row, 3).fill = PatternFill("solid", fgColor=colour)
    ship = sheet.cell(row, 1).value
    question = f"With which fill colour is the crew of the ship {ship} marked in the attached workbook?"
    return _drawn(book, f"{question} Give eight hexadecimal digits: FF, then red, green and blue.", f"FF{colour}")


def xlsx_comment(rng: Random, difficulty: int) -> Drawn:
    from openpyxl.comments import Comment

    book, sheet, ships = _harbour(rng)
    rows = rng.sample(range(2, SHIPS + 2), 2)
    people = [f"{first} {last}" for first, last in (draw_names(rng, 2), draw_names(rng, 2))]
    for row, person in zip(rows, people, strict=True):
        sheet.cell(row, 2).comment = Comment(person, "harbour")
    question = (
        f"Whose name does the comment on the tonnes of the ship {ships[rows[0] - 2]} give in the attached workbook?"
    )
    return _drawn(book, f"{question} Give the full name.", people[0])


def xlsx_formula(rng: Random, difficulty: int) -> Drawn:
    book, sheet, ships = _harbour(rng)
    sheet.cell(1, 4).value = "dues"
    for row in range(2, SHIPS + 2):
        sheet.cell(row, 4).value = f"=B{row}*{rng.randint(11, 999)}"
    row = rng.randrange(2, SHIPS + 2)
    question = f"Which formula computes the dues of the ship {ships[row - 2]} in the attached workbook?"
    return _drawn(book, f"{question} Write it as in Excel.", sheet.cell(row, 4).value)


def xlsx_hidden_row(rng: Random, difficulty: int) -> Drawn:
    book, sheet, _ = _harbour(rng)
    row = rng.randrange(2, SHIPS + 2)
    sheet.row_dimensions[row].hidden = True
    question = "One row of the attached workbook is hidden. How many tonnes stand in the hidden row?"
    return _drawn(book, f"{question} Give only the number.", sheet.cell(row, 2).value)


def xlsx_hidden_sheet(rng: Random, difficulty: int) -> Drawn:
    book, _, ships = _harbour(rng)
    (title,) = draw_names(rng, 1)
    hidden = book.create_sheet(f"{title} 2")
    _fill(rng, hidden, ships)
    hidden.sheet_state = "hidden"
    row = rng.randrange(2, SHIPS + 2)
    question = f"On the hidden sheet of the attached workbook, what are the tonnes of the ship {ships[row - 2]}?"
    return _drawn(book, f"{question} Give only the number.", hidden.cell(row, 2).value)


def xlsx_merged(rng: Random, difficulty: int) -> Drawn:
    book, sheet, _ = _harbour(rng)
    first = rng.randrange(20, 600)
    area = f"{rng.choice('ABCDEF')}{first}:{rng.choice('GHIJKL')}{first + rng.randint(1, 30)}"
    sheet.merge_cells(area)
    question = "Which range of cells is merged in the attached workbook?"
    return _drawn(book, f"{question} Write it as in Excel, such as A1:B2.", area)


FAMILIES: dict[str, Family] = {  # in the order in which the splits of the sample take them
    family.__name__: family
    for family in (xlsx_comment, xlsx_formula, xlsx_hidden_sheet, xlsx_fill, xlsx_hidden_row, xlsx_merged)
}
