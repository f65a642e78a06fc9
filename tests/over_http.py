"""Own questions for the model server: facts that nobody could guess, each in an attached file.

The wordings are deliberately other than those the server's own tests use.
"""

import json
import random
from pathlib import Path
from typing import Any

import openpyxl

CROPS = ("barley", "millet", "sorghum", "quinoa", "teff")
TOWNS = ("Ostrava", "Piran", "Quedlinburg", "Rovaniemi", "Siglufjordur")
COLUMNS = ("sown", "harvested", "sold")


def write_questions(folder: Path, seed: int = 7) -> list[dict[str, Any]]:
    """Twelve questions over csv, xlsx, json and txt files, and two without a file; returns their rows."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        *_table_questions(folder, draw),
        *_workbook_questions(folder, draw),
        *_json_questions(folder, draw),
        *_note_questions(folder, draw),
        _row("sum", "What is 8417 * 36 - 129? Reply with the bare number.", str(8417 * 36 - 129), None),
    ]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return rows


def set_workbook_cell(folder: Path, town: str, column: str, value: int) -> None:
    """Change one number of the workbook where it lies."""
    path = folder / "harvest.xlsx"
    book = openpyxl.load_workbook(path)
    sheet = book["Harvest"]
    row = next(cells for cells in sheet.iter_rows(min_row=2) if cells[0].value == town)
    row[1 + COLUMNS.index(column)].value = value
    book.save(path)


def _table(draw: random.Random, names: tuple[str, ...]) -> dict[str, dict[str, int]]:
    return {name: {column: draw.randrange(1000, 9999) for column in COLUMNS} for name in names}


def _table_questions(folder: Path, draw: random.Random) -> list[dict[str, Any]]:
    table = _table(draw, CROPS)
    lines = [",".join(("crop", *COLUMNS)), *(",".join(map(str, (name, *row.values()))) for name, row in table.items())]
    (folder / "fields.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        _row(
            "csv-1",
            "Going by the attached table, what figure is given for millet sold?",
            table["millet"]["sold"],
            "fields.csv",
        ),
        _row("csv-2", "Teff: how much of it was harvested? A number only.", table["teff"]["harvested"], "fields.csv"),
        _row("csv-3", "I need the sown amount listed against quinoa.", table["quinoa"]["sown"], "fields.csv"),
    ]


def _workbook_questions(folder: Path, draw: random.Random) -> list[dict[str, Any]]:
    table = _table(draw, TOWNS)
    book = openpyxl.Workbook()
    cover = book.worksheets[0]
    cover.title = "Cover"
    cover.append(["Regional report"])
    sheet = book.create_sheet("Harvest")
    sheet.append(["town", *COLUMNS])
    for name, row in table.items():
        sheet.append([name, *row.values()])
    book.save(folder / "harvest.xlsx")
    return [
        _row("xlsx-1", "Look at the workbook: what was sold in Piran?", table["Piran"]["sold"], "harvest.xlsx"),
        _row(
            "xlsx-2",
            "For Rovaniemi, which number stands under harvested?",
            table["Rovaniemi"]["harvested"],
            "harvest.xlsx",
        ),
        _row("xlsx-3", "State the quantity sown at Siglufjordur.", table["Siglufjordur"]["sown"], "harvest.xlsx"),
    ]


def _json_questions(folder: Path, draw: random.Random) -> list[dict[str, Any]]:
    stations = [
        {"station": name, "depth": draw.randrange(100, 999), "keeper": f"K{draw.randrange(10**6)}"} for name in TOWNS
    ]
    (folder / "stations.json").write_text(json.dumps({"stations": stations}), encoding="utf-8")
    return [
        _row("json-1", "Who is named as keeper of the station Quedlinburg?", stations[2]["keeper"], "stations.json"),
        _row("json-2", "Tell me the depth recorded at station Ostrava.", stations[0]["depth"], "stations.json"),
    ]


def _note_questions(folder: Path, draw: random.Random) -> list[dict[str, Any]]:
    code, berth = draw.randrange(10_000, 99_999), draw.randrange(10, 99)
    text = f"Dear all,\nThe boathouse keypad code is {code}.\nThe ferry leaves from berth {berth}.\nBring lamps.\n"
    (folder / "note.txt").write_text(text, encoding="utf-8")
    return [
        _row("txt-1", "What keypad code opens the boathouse, says the note?", code, "note.txt"),
        _row("txt-2", "From which berth does the ferry leave?", berth, "note.txt"),
    ]


def _row(task_id: str, question: str, answer: object, file: str | None) -> dict[str, Any]:
    return {"task_id": task_id, "Question": question, "Final answer": str(answer), "Level": 1, "file_name": file or ""}
