"""Questions about a place in a document: a page of text, a table or comment in a letter, a member of an archive.

FAMILIES["pdf_page"](random.Random(1), 1).suffix     # ".pdf"
"""

from random import Random

from eval.benchmarks.toy_set import Drawn, Family, draw_names
from scripts.sample_data.media import picture_bytes
from scripts.sample_data.office import docx_bytes, pdf_bytes, zip_bytes
from scripts.sample_data.tables import csv_bytes, xlsx_bytes

PAGES = 12


def pdf_page(rng: Random, difficulty: int) -> Drawn:
    codes = rng.sample(range(10_000, 99_999), PAGES)
    page = rng.randrange(2, PAGES)
    pages = [[f"The code of this page is {code}."] for code in codes]
    question = f"Which code stands on page {page} of the attached PDF? Give only the number."
    return Drawn(question, str(codes[page - 1]), 1, ".pdf", pdf_bytes(pages))


def _note(rng: Random) -> tuple[str, str, list[str]]:
    """The question, its answer and the lines."""
    towns, codes = draw_names(rng, 3), rng.sample(range(1001, 9999), 3)
    lines = [f"The code of the boathouse at {town} is {code}." for town, code in zip(towns, codes, strict=True)]
    question = f"What is the code of the boathouse at {towns[1]}, by the attached note? Give only the number."
    return question, str(codes[1]), ["Of our boathouses.", *lines, "Bring a lamp."]


def plain_note(rng: Random, difficulty: int) -> Drawn:
    question, answer, lines = _note(rng)
    return Drawn(question, answer, 1, ".txt", "\n\n".join(lines).encode())


def word_note(rng: Random, difficulty: int) -> Drawn:
    question, answer, lines = _note(rng)
    return Drawn(question, answer, 1, ".docx", docx_bytes(lines))


def word_table(rng: Random, difficulty: int) -> Drawn:
    towns, keepers = draw_names(rng, 6), [f"{first} {last}" for first, last in (draw_names(rng, 2) for _ in range(6))]
    table = [["town", "keeper"], *zip(towns, keepers, strict=True)]
    row = rng.randrange(6)
    question = f"Who is the keeper at {towns[row]}, by the table in the attached document? Give the full name."
    return Drawn(question, keepers[row], 1, ".docx", docx_bytes(["The keepers of this year:"], table))


def script_source(rng: Random, difficulty: int) -> Drawn:
    lockers = [(name, rng.randint(1001, 9999)) for name in draw_names(rng, 8)]
    name, locker = rng.choice(lockers)
    entries = "".join(f'  "{each}": {number},\n' for each, number in lockers)
    content = f"const LOCKERS = {{\n{entries}}};\n\nfunction lockerOf(name) {{\n  return LOCKERS[name];\n}}\n"
    question = f"Which locker does the attached JavaScript program give to {name}? Give only the number."
    return Drawn(question, str(locker), 1, ".js", content.encode())


def archived_workbook(rng: Random, difficulty: int) -> Drawn:
    ships = draw_names(rng, 6)
    rows = [[ship, rng.randint(900, 9900), rng.randint(101, 890)] for ship in ships]
    other = draw_names(rng, 6)
    members = {
        "crews/ships.xlsx": xlsx_bytes({"ships": [["ship", "tonnes", "crew"], *rows]}),
        "crews/boats.csv": csv_bytes([["boat", "oars"], *([name, rng.randint(2, 90)] for name in other)]),
        "readme.txt": b"Ships and boats of this year.\n",
    }
    row = rng.choice(rows)
    question = f"How many tonnes has the ship {row[0]}, by the workbook `crews/ships.xlsx` in the attached archive?"
    return Drawn(f"{question} Give only the number.", str(row[1]), 1, ".zip", zip_bytes(members))


def archived_picture(rng: Random, difficulty: int) -> Drawn:
    town, pier = draw_names(rng, 1)[0], rng.randint(112, 980)
    members = {
        "photos/sign.png": picture_bytes("PNG", [f"The boat to {town} leaves from pier {pier}."]),
        "photos/list.txt": b"sign.png: a sign at the harbour\n",
    }
    question = (
        f"From which pier does the boat to {town} leave, by the picture `photos/sign.png` in the attached archive?"
    )
    return Drawn(f"{question} Give only the number.", str(pier), 1, ".zip", zip_bytes(members))


FAMILIES: dict[str, Family] = {
    "pdf_page": pdf_page,
    "plain_note": plain_note,
    "word_note": word_note,
    "word_table": word_table,
    "script_source": script_source,
    "archived_workbook": archived_workbook,
    "archived_picture": archived_picture,
}
