"""The sample's other kinds of attachments, one question for each: what is asked stands in the file and nowhere else.

Where a kind has a place of its own (a presentation's notes, a PDF's later page, a member of an archive), the answer is
there.

FAMILIES["slide_notes"](random.Random(1), 1).suffix     # ".pptx"
"""

import json
from random import Random

from scripts.sample_data.attached import GOODS, MONTHS, letter
from scripts.sample_data.media import picture_bytes
from scripts.sample_data.office import Page, csv_bytes, docx_bytes, epub_bytes, pdf_bytes, pptx_bytes, zip_bytes
from scripts.sample_data.old_excel import xls_bytes
from scripts.sample_data.toy import Drawn, Family, draw_names, shuffle

TRADERS = 6


def _shipped(rng: Random) -> tuple[str, str, str, list[list[object]]]:
    """The question, its answer, the goods, and the table with its header first."""
    goods = rng.choice(GOODS)
    table = [[name, *(rng.randint(120, 9800) for _ in MONTHS)] for name in draw_names(rng, TRADERS)]
    row, month = rng.choice(table), rng.randrange(len(MONTHS))
    asked = f"how many {goods} did {row[0]} ship in {MONTHS[month]}? Give only the number."
    return asked, str(row[month + 1]), goods, [["trader", *MONTHS], *table]


def markdown_table(rng: Random, difficulty: int) -> Drawn:
    asked, answer, goods, (header, *rows) = _shipped(rng)
    rule: list[object] = ["---"] * len(header)
    lines = [f"| {' | '.join(str(cell) for cell in row)} |" for row in (header, rule, *rows)]
    content = "\n".join([f"# Ledger of {goods}", "", *lines, ""])
    return Drawn(f"In the attached Markdown file, {asked}", answer, 1, ".md", content.encode())


def tab_separated(rng: Random, difficulty: int) -> Drawn:
    asked, answer, _, table = _shipped(rng)
    return Drawn(f"In the attached file, {asked}", answer, 1, ".tsv", csv_bytes(table, "\t"))


def json_lines(rng: Random, difficulty: int) -> Drawn:
    crew = [{"name": name, "locker": rng.randint(100, 999), "age": rng.randint(20, 70)} for name in draw_names(rng, 8)]
    asked = rng.choice(crew)
    question = f"What is the locker number of {asked['name']} in the attached file? Give only the number."
    content = "".join(f"{json.dumps(member)}\n" for member in crew)
    return Drawn(question, str(asked["locker"]), 1, ".jsonl", content.encode())


def linked_data(rng: Random, difficulty: int) -> Drawn:
    bridges = [
        {"@type": "Bridge", "name": name, "keeper": keeper, "spans": rng.randint(3, 60)}
        for name, keeper in zip(draw_names(rng, 6), draw_names(rng, 6), strict=True)
    ]
    asked = rng.choice(bridges)
    question = f"Who is the keeper of the bridge {asked['name']} in the attached JSON-LD file? Give the name alone."
    content = json.dumps({"@context": {"spans": "arches"}, "@graph": bridges}, indent=1)
    return Drawn(question, str(asked["keeper"]), 1, ".jsonld", content.encode())


def xml_elements(rng: Random, difficulty: int) -> Drawn:
    towers = [(name, rng.randint(3, 40), rng.randint(201, 890)) for name in draw_names(rng, 8)]
    name, _, steps = rng.choice(towers)
    body = "".join(
        f'  <tower name="{n}">\n    <bells>{b}</bells>\n    <steps>{s}</steps>\n  </tower>\n' for n, b, s in towers
    )
    question = f"How many steps does the tower {name} have, according to the attached XML file? Give only the number."
    content = f'<?xml version="1.0" encoding="utf-8"?>\n<towers>\n{body}</towers>\n'
    return Drawn(question, str(steps), 1, ".xml", content.encode())


def web_page(rng: Random, difficulty: int) -> Drawn:
    asked, answer, goods, table = _shipped(rng)
    rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in table)
    page = f"<head><title>{goods}</title><style>td {{color: #333}}</style></head>\n<body><h1>Shipments</h1>\n"
    content = f"<!DOCTYPE html>\n<html>{page}<table>\n{rows}</table></body></html>\n"
    return Drawn(f"In the table of the attached web page, {asked}", answer, 1, ".html", content.encode())


def python_source(rng: Random, difficulty: int) -> Drawn:
    lockers = [(name, rng.randint(1001, 9999)) for name in draw_names(rng, 8)]
    name, locker = rng.choice(lockers)
    entries = "".join(f'    "{each}": {number},\n' for each, number in lockers)
    content = f"LOCKERS = {{\n{entries}}}\n\n\ndef locker_of(name: str) -> int:\n    return LOCKERS[name]\n"
    question = f"Which locker does the attached Python program give to {name}? Give only the number."
    return Drawn(question, str(locker), 1, ".py", content.encode())


def protein(rng: Random, difficulty: int) -> Drawn:
    (name,) = draw_names(rng, 1)
    resolution = f"{rng.randint(1, 3)}.{rng.randint(10, 99)}"
    atoms = "".join(
        f"ATOM  {n:5d}  CA  GLY A{n:4d}    {rng.uniform(-40, 40):8.3f}{rng.uniform(-40, 40):8.3f}"
        f"{rng.uniform(-40, 40):8.3f}  1.00 20.00           C  \n"
        for n in range(1, 13)
    )
    remark = f"REMARK   2\nREMARK   2 RESOLUTION.    {resolution} ANGSTROMS.\n"
    content = f"HEADER    INVENTED PROTEIN\nTITLE     STRUCTURE OF {name.upper()}\n{remark}{atoms}END\n"
    question = "What is the resolution, in angstroms, of the structure in the attached PDB file? Give only the number."
    return Drawn(question, resolution, 1, ".pdb", content.encode())


def old_workbook(rng: Random, difficulty: int) -> Drawn:
    wharves, ships = draw_names(rng, 2), draw_names(rng, 7)
    header = ["ship", "tonnes", "crew"]
    sheets = {wharf: [[ship, rng.randint(900, 9900), rng.randint(101, 190)] for ship in ships] for wharf in wharves}
    wharf, column = rng.choice(wharves), rng.randrange(1, 3)
    row = rng.choice(sheets[wharf])
    question = (
        f"The attached workbook has one sheet for each wharf. On the sheet {wharf}, what is the value of"
        f" `{header[column]}` for the ship {row[0]}? Give only the number."
    )
    content = xls_bytes({title: [header, *rows] for title, rows in sheets.items()})
    return Drawn(question, str(row[column]), 1, ".xls", content)


def word_letter(rng: Random, difficulty: int) -> Drawn:
    question, answer, paragraphs = letter(rng, difficulty)
    return Drawn(question, answer, 1, ".docx", docx_bytes(paragraphs))


def slide_notes(rng: Random, difficulty: int) -> Drawn:
    town, other, speaker = draw_names(rng, 3)
    pier, elsewhere = rng.sample(range(112, 980), 2)
    slides = [
        ("The harbour", f"A talk by {speaker}", "Thank the hosts."),
        (f"Boats to {town}", "They leave every morning", f"The boat to {town} leaves from pier {pier}."),
        (f"Boats to {other}", "They leave at noon", f"The boat to {other} leaves from pier {elsewhere}."),
    ]
    question = (
        f"According to the speaker's notes of the attached presentation, from which pier does the boat to {town} leave?"
        " Give only the number."
    )
    return Drawn(question, str(pier), 1, ".pptx", pptx_bytes(slides))


def pdf_table(rng: Random, difficulty: int) -> Drawn:
    asked, answer, goods, table = _shipped(rng)
    pages: list[Page] = [
        [f"Report on the trade in {goods}", "The figures are on the second page."],
        table,
        ["End of the report."],
    ]
    return Drawn(f"In the table of the attached PDF, {asked}", answer, 1, ".pdf", pdf_bytes(pages))


def book_chapter(rng: Random, difficulty: int) -> Drawn:
    islands = draw_names(rng, 4)
    lamps = rng.sample(range(112, 980), len(islands))
    chapters = [
        (f"The island {island}", ["We landed in the evening.", f"The lighthouse of {island} has {count} lamps."])
        for island, count in zip(islands, lamps, strict=True)
    ]
    asked = rng.randrange(1, len(islands))
    question = f"How many lamps does the lighthouse of {islands[asked]} have, according to the attached book?"
    content = epub_bytes("A voyage", chapters)
    return Drawn(f"{question} Give only the number.", str(lamps[asked]), 1, ".epub", content)


def archived_table(rng: Random, difficulty: int) -> Drawn:
    asked, answer, goods, table = _shipped(rng)
    other = _shipped(rng)[3]
    readme = f"The folder `{goods}` has this year's table, the folder `old` last year's.\n"
    members = {
        "readme.txt": readme.encode(),
        f"{goods}/shipped.csv": csv_bytes(table),
        "old/shipped.csv": csv_bytes(other),
    }
    question = f"According to the table `{goods}/shipped.csv` in the attached archive, {asked}"
    return Drawn(question, answer, 1, ".zip", zip_bytes(members))


def _sign(form: str, suffix: str) -> Family:
    def picture(rng: Random, difficulty: int) -> Drawn:
        towns = draw_names(rng, 3)
        piers = rng.sample(range(112, 980), len(towns))
        town, pier = rng.choice(list(zip(towns, piers, strict=True)))
        lines = [f"The boat to {each} leaves from pier {number}." for each, number in zip(towns, piers, strict=True)]
        question = f"From which pier does the boat to {town} leave, going by the sign in the attached picture?"
        return Drawn(
            f"{question} Give only the number.", str(pier), 1, suffix, picture_bytes(form, shuffle(rng, lines))
        )

    return picture


FAMILIES: dict[str, Family] = {
    "markdown_table": markdown_table,
    "tab_separated": tab_separated,
    "json_lines": json_lines,
    "linked_data": linked_data,
    "xml_elements": xml_elements,
    "web_page": web_page,
    "python_source": python_source,
    "protein": protein,
    "old_workbook": old_workbook,
    "word_letter": word_letter,
    "slide_notes": slide_notes,
    "pdf_table": pdf_table,
    "book_chapter": book_chapter,
    "archived_table": archived_table,
    "png_sign": _sign("PNG", ".png"),
    "jpeg_sign": _sign("JPEG", ".jpg"),
    "gif_sign": _sign("GIF", ".gif"),
    "webp_sign": _sign("WEBP", ".webp"),
}
