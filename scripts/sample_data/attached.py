"""The sample's families whose answer lies in an attachment: tables, workbooks, JSON and letters.

The difficulty, 1 to 3, is how much there is to confuse: more rows, names that look alike, columns beside the right one.

FAMILIES["csv_lookup"](random.Random(1), 1).question     # "In the attached file, how many ropes did … ship in May? …"
"""

import json
from random import Random

from scripts.sample_data.office import csv_bytes, xlsx_bytes
from scripts.sample_data.toy import Drawn, Family, draw_names, shuffle

MONTHS = ("January", "February", "March", "April", "May", "June")
GOODS = ("crates", "barrels", "lanterns", "bricks", "blankets", "candles", "ropes", "kettles")
ROLES = ("cook", "pilot", "clerk", "smith", "nurse", "archivist")
PLACES = ("clock", "stove", "piano", "globe", "mirror", "barometer", "bookcase", "fireplace")
ALIKE = {1: 0, 2: 2, 3: 4}  # names that look like the one that is asked for


def csv_lookup(rng: Random, difficulty: int) -> Drawn:
    goods = rng.choice(GOODS)
    asked, *others = draw_names(rng, {1: 8, 2: 16, 3: 30}[difficulty], ALIKE[difficulty])
    table = [[trader, *(rng.randint(120, 9800) for _ in MONTHS)] for trader in shuffle(rng, [asked, *others])]
    row, month = next(row for row in table if row[0] == asked), rng.randrange(len(MONTHS))
    wordings = (
        "In the attached file, how many {goods} did {name} ship in {month}? Give only the number.",
        "The attached table lists the {goods} shipped by each trader. What is {name}'s figure for {month}? Answer"
        " with the number alone, without thousands separators.",
        "How many {goods} left {name}'s store in {month}, going by the attached list? Answer with a plain number.",
    )
    question = rng.choice(wordings).format(goods=goods, name=asked, month=MONTHS[month])
    return Drawn(question, str(row[month + 1]), 1, ".csv", csv_bytes([["trader", *MONTHS], *table]))


def csv_extreme(rng: Random, difficulty: int) -> Drawn:
    coast, table = _lighthouses(rng, difficulty)
    highest = rng.random() < 0.5
    place = (max if highest else min)(table, key=lambda row: row[3])[0]
    wordings = (
        "According to the attached table, which lighthouse of the {coast} coast had the {extreme} oil consumption? Give"
        " its name only.",
        "Which lighthouse in the attached file about {coast} burned the {amount} oil? Answer with the name alone.",
    )
    words = {"extreme": "highest", "amount": "most"} if highest else {"extreme": "lowest", "amount": "least"}
    question = rng.choice(wordings).format(coast=coast, **words)
    return Drawn(question, place, 1, ".csv", _lighthouse_file(table, difficulty))


def csv_two_step(rng: Random, difficulty: int) -> Drawn:
    """Find the row first, then read another of its cells."""
    coast, table = _lighthouses(rng, difficulty)
    highest = rng.random() < 0.5
    _, keeper, height, _, _ = (max if highest else min)(table, key=lambda row: row[3])
    wordings = (
        ("In the attached table of the {coast} coast, what is the height in metres of the lighthouse that burned the"
         " {amount} oil? Give only the number.", height),
        ("Who is the keeper of the lighthouse with the {extreme} oil consumption in the attached file about {coast}?"
         " Give the name alone.", keeper),
    )  # fmt: skip
    words = {"extreme": "highest", "amount": "most"} if highest else {"extreme": "lowest", "amount": "least"}
    wording, answer = rng.choice(wordings)
    question = wording.format(coast=coast, **words)
    return Drawn(question, str(answer), 2, ".csv", _lighthouse_file(table, difficulty))


def _lighthouses(rng: Random, difficulty: int) -> tuple[str, list[tuple[str, str, int, int, int]]]:
    """The coast's name; lighthouse, keeper, height, oil burned and oil stored, no number twice in a column."""
    count = {1: 9, 2: 18, 3: 32}[difficulty]
    coast, *people = draw_names(rng, 2 * count + 1)
    lighthouses, keepers = people[:count], people[count:]
    heights = rng.sample(range(11, 90), count)
    burned, stored = rng.sample(range(210, 9900), count), rng.sample(range(210, 9900), count)
    return coast, list(zip(lighthouses, keepers, heights, burned, stored, strict=True))


def _lighthouse_file(table: list[tuple[str, str, int, int, int]], difficulty: int) -> bytes:
    """The oil in store, which nobody asks for, is only there in the more difficult ones."""
    header = ("lighthouse", "keeper", "height_m", "oil_burned_litres", "oil_stored_litres")
    columns = 5 if difficulty > 1 else 4
    return csv_bytes([row[:columns] for row in (header, *table)])


def csv_total(rng: Random, difficulty: int) -> Drawn:
    goods = rng.choice(GOODS)
    depots = draw_names(rng, {1: 3, 2: 4, 3: 6}[difficulty], ALIKE[difficulty])
    days = {1: 15, 2: 40, 3: 75}[difficulty]
    table = [(day, rng.choice(depots), rng.randint(15, 480), rng.randint(0, 14)) for day in range(1, days + 1)]
    depot = rng.choice(table)[1]
    total = sum(row[2] for row in table if row[1] == depot)
    wordings = (
        "What is the total number of {goods} received by the depot {depot} in the attached file? Give only the number.",
        "Add up everything in the column `received` that the attached table of {goods} lists for {depot}. Answer with"
        " the sum as a plain number.",
        "Counting all its days in the attached log, how many {goods} did {depot} receive altogether, damaged or not?"
        " Answer with a number without thousands separators.",
    )
    question = rng.choice(wordings).format(goods=goods, depot=depot)
    return Drawn(question, str(total), 2, ".csv", csv_bytes([["day", "depot", "received", "damaged"], *table]))


def xlsx_lookup(rng: Random, difficulty: int) -> Drawn:
    wharves = draw_names(rng, difficulty + 1)
    asked, *others = draw_names(rng, {1: 6, 2: 10, 3: 18}[difficulty], ALIKE[difficulty])
    ships = shuffle(rng, [asked, *others])
    header = ["ship", "tonnes", "crew", "days_at_sea"]
    sheets = {
        wharf: [[ship, rng.randint(900, 9900), rng.randint(101, 190), rng.randint(201, 290)] for ship in ships]
        for wharf in wharves
    }
    wharf, column = rng.choice(wharves), rng.randrange(1, 4)
    row = next(row for row in sheets[wharf] if row[0] == asked)
    wordings = (
        "The attached workbook has one sheet for each wharf. On the sheet {wharf}, what is the value of `{column}` for"
        " the ship {ship}? Give only the number.",
        "Look at the attached spreadsheet: which number stands under `{column}` for {ship} at the wharf {wharf}?"
        " Answer with the number alone.",
    )
    question = rng.choice(wordings).format(wharf=wharf, column=header[column], ship=asked)
    content = xlsx_bytes({title: [header, *rows] for title, rows in sheets.items()})
    return Drawn(question, str(row[column]), 1, ".xlsx", content)


def xlsx_difference(rng: Random, difficulty: int) -> Drawn:
    goods = rng.choice(GOODS)
    asked, *others = draw_names(rng, {1: 6, 2: 12, 3: 22}[difficulty], ALIKE[difficulty])
    output = {mill: [rng.randint(300, 7900) for _ in MONTHS] for mill in shuffle(rng, [asked, *others])}
    month = rng.randrange(len(MONTHS))
    less, more = sorted((asked, rng.choice(others)), key=lambda mill: output[mill][month])
    wordings = (
        "In the attached workbook, how many more {goods} did {more} make in {month} than {less}? Give only the number.",
        "By how many {goods} did the output of {less} fall short of that of {more} in {month}, according to the"
        " attached spreadsheet? Answer with a plain number.",
    )
    question = rng.choice(wordings).format(goods=goods, more=more, less=less, month=MONTHS[month])
    content = xlsx_bytes({"output": [["mill", *MONTHS], *([mill, *made] for mill, made in output.items())]})
    return Drawn(question, str(output[more][month] - output[less][month]), 2, ".xlsx", content)


def json_lookup(rng: Random, difficulty: int) -> Drawn:
    asked, *others = draw_names(rng, {1: 3, 2: 6, 3: 10}[difficulty], ALIKE[difficulty])
    stations = {
        station: {"crew": [{"name": name, "role": role, "locker": rng.randint(100, 999)} for name, role in crew]}
        for station in shuffle(rng, [asked, *others])
        for crew in [list(zip(draw_names(rng, len(ROLES)), shuffle(rng, ROLES), strict=True))]
    }
    member = rng.choice(stations[asked]["crew"])
    wordings = (
        ("What is the locker number of the {role} at station {station} in the attached file? Give only the number.", 1),
        ("According to the attached JSON file, what is the name of the {role} at station {station}? Give one word.", 0),
        (
            "Find the {role} of {station} in the attached data. Which locker has this person? Answer with a number.",
            1,
        ),
    )
    wording, asks_locker = rng.choice(wordings)
    answer = str(member["locker"] if asks_locker else member["name"])
    content = json.dumps({"stations": stations}, indent=1).encode()
    return Drawn(wording.format(role=member["role"], station=asked), answer, 1, ".json", content)


def letter_fact(rng: Random, difficulty: int) -> Drawn:
    question, answer, paragraphs = letter(rng, difficulty)
    return Drawn(question, answer, 1, ".txt", "\n\n".join(paragraphs).encode() + b"\n")


def letter(rng: Random, difficulty: int) -> tuple[str, str, list[str]]:
    """A question, its answer and the paragraphs of the letter."""
    writer, reader, town, neighbour, village = draw_names(rng, 5)
    pier, steps, boxes, *wrong = rng.sample(range(112, 980), 6)
    place, other, elsewhere = rng.sample(PLACES, 3)
    questions = (
        (f"In the attached letter, from which pier does the boat to {town} leave? Give only the number.", str(pier)),
        (
            f"How many steps lead up to the house, according to {writer}'s attached letter? Give only the number.",
            str(steps),
        ),
        (f"Behind which object does {writer} say that the key hangs, in the attached letter? Give one word.", place),
        (f"The attached letter tells {reader} where the key hangs. Behind what? Answer with one word.", place),
        (f"How many boxes of seed does the attached letter say were sold at {town}? Answer with a number.", str(boxes)),
    )
    question, answer = rng.choice(questions)
    paragraphs = [
        f"Thank you for the parcel, which came on the first dry day in weeks. The market at {town}"
        f" went well, and we sold {boxes} boxes of seed before noon. The boat to {town} leaves from pier {pier}, since"
        f" the landing that {neighbour} recommends is closed. From the boat it is a short walk to the house,"
        f" with {steps} steps up at the end. The spare key used to hang behind the {other}, where everybody looked for"
        f" it. It hangs behind the {place} now, so please put it back there. {neighbour} has promised to feed the hens"
        " while I am away. Bring warm socks, because the chimney smokes in an east wind.",
        f"The boat to {village} is another matter: it leaves from pier {wrong[0]}, and at the market there we sold no"
        f" more than {wrong[1]} boxes.",
        f"{neighbour} keeps a key of the boathouse behind the {elsewhere}, above the {wrong[2]} steps to the water. You"
        " will not need it.",
    ]
    return question, answer, [f"Dear {reader},", *paragraphs[:difficulty], f"Yours, {writer}"]


def csv_list(rng: Random, difficulty: int) -> Drawn:
    count, most = {1: (10, 2), 2: (18, 4), 3: (30, 6)}[difficulty]
    valley, *places = draw_names(rng, count + 1)
    villages = [(name, rng.randint(120, 990), rng.choice(("yes", "no"))) for name in places]
    limit = rng.randrange(350, 900, 50)
    chosen = sorted(name for name, people, well in villages if people > limit and well == "yes")
    if not difficulty < len(chosen) <= most:
        return csv_list(rng, difficulty)
    wordings = (
        "Which villages of the {valley} valley, listed in the attached file, have more than {limit} inhabitants and a"
        " well? Give the names in alphabetical order, separated by commas.",
        "List the villages in the attached table of {valley} that have a well and over {limit} inhabitants, as a"
        " comma separated list in alphabetical order.",
    )
    content = csv_bytes([["village", "inhabitants", "well"], *villages])
    return Drawn(rng.choice(wordings).format(limit=limit, valley=valley), ", ".join(chosen), 3, ".csv", content)


FAMILIES: dict[str, Family] = {
    "csv_lookup": csv_lookup,
    "csv_extreme": csv_extreme,
    "csv_two_step": csv_two_step,
    "csv_total": csv_total,
    "xlsx_lookup": xlsx_lookup,
    "xlsx_difference": xlsx_difference,
    "json_lookup": json_lookup,
    "letter_fact": letter_fact,
    "csv_list": csv_list,
}
