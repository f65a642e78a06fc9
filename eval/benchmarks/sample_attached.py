"""The sample's families whose answer lies in an attachment: tables, workbooks, JSON and letters.

FAMILIES["csv_lookup"](random.Random(1)).question     # "In the attached file, how many ropes did … ship in May? …"
"""

import json
from random import Random

from eval.benchmarks.sample_draw import Drawn, Family, csv_bytes, names, xlsx_bytes

MONTHS = ("January", "February", "March", "April", "May", "June")
GOODS = ("crates", "barrels", "lanterns", "bricks", "blankets", "candles", "ropes", "kettles")
ROLES = ("cook", "pilot", "clerk", "smith", "nurse", "archivist")
PLACES = ("clock", "stove", "piano", "globe", "mirror", "barometer", "bookcase", "fireplace")


def csv_lookup(rng: Random) -> Drawn:
    goods = rng.choice(GOODS)
    table = [[trader, *(rng.randint(120, 9800) for _ in MONTHS)] for trader in names(rng, 12)]
    row, month = rng.choice(table), rng.randrange(len(MONTHS))
    wordings = (
        "In the attached file, how many {goods} did {name} ship in {month}? Give only the number.",
        "The attached table lists the {goods} shipped by each trader. What is {name}'s figure for {month}? Answer"
        " with the number alone, without thousands separators.",
        "How many {goods} left {name}'s store in {month}, going by the attached list? Answer with a plain number.",
    )
    question = rng.choice(wordings).format(goods=goods, name=row[0], month=MONTHS[month])
    return Drawn(question, str(row[month + 1]), 1, ".csv", csv_bytes([["trader", *MONTHS], *table]))


def csv_extreme(rng: Random) -> Drawn:
    litres = rng.sample(range(210, 9900), 18)
    coast, *places = names(rng, 19)
    table = [(place, rng.randint(4, 60), oil) for place, oil in zip(places, litres, strict=True)]
    highest = rng.random() < 0.5
    place = (max if highest else min)(table, key=lambda row: row[2])[0]
    wordings = (
        "According to the attached table, which lighthouse of the {coast} coast had the {extreme} oil consumption? Give"
        " its name only.",
        "Which lighthouse in the attached file about {coast} burned the {amount} oil? Answer with the name alone.",
    )
    words = {"extreme": "highest", "amount": "most"} if highest else {"extreme": "lowest", "amount": "least"}
    question = rng.choice(wordings).format(coast=coast, **words)
    return Drawn(question, place, 1, ".csv", csv_bytes([["lighthouse", "height_m", "oil_litres"], *table]))


def csv_total(rng: Random) -> Drawn:
    goods, depots = rng.choice(GOODS), names(rng, 4)
    table = [(day, rng.choice(depots), rng.randint(15, 480), rng.randint(0, 14)) for day in range(1, 41)]
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


def xlsx_lookup(rng: Random) -> Drawn:
    wharves, ships = names(rng, rng.choice((2, 3))), names(rng, 9)
    header = ["ship", "tonnes", "crew", "days_at_sea"]
    sheets = {
        wharf: [[ship, rng.randint(900, 9900), rng.randint(101, 190), rng.randint(201, 290)] for ship in ships]
        for wharf in wharves
    }
    wharf, column = rng.choice(wharves), rng.randrange(1, 4)
    row = rng.choice(sheets[wharf])
    wordings = (
        "The attached workbook has one sheet for each wharf. On the sheet {wharf}, what is the value of `{column}` for"
        " the ship {ship}? Give only the number.",
        "Look at the attached spreadsheet: which number stands under `{column}` for {ship} at the wharf {wharf}?"
        " Answer with the number alone.",
    )
    question = rng.choice(wordings).format(wharf=wharf, column=header[column], ship=row[0])
    content = xlsx_bytes({title: [header, *rows] for title, rows in sheets.items()})
    return Drawn(question, str(row[column]), 1, ".xlsx", content)


def xlsx_difference(rng: Random) -> Drawn:
    goods = rng.choice(GOODS)
    output = {mill: [rng.randint(300, 7900) for _ in MONTHS] for mill in names(rng, 10)}
    month = rng.randrange(len(MONTHS))
    less, more = sorted(rng.sample(sorted(output), 2), key=lambda mill: output[mill][month])
    wordings = (
        "In the attached workbook, how many more {goods} did {more} make in {month} than {less}? Give only the number.",
        "By how many {goods} did the output of {less} fall short of that of {more} in {month}, according to the"
        " attached spreadsheet? Answer with a plain number.",
    )
    question = rng.choice(wordings).format(goods=goods, more=more, less=less, month=MONTHS[month])
    content = xlsx_bytes({"output": [["mill", *MONTHS], *([mill, *made] for mill, made in output.items())]})
    return Drawn(question, str(output[more][month] - output[less][month]), 2, ".xlsx", content)


def json_lookup(rng: Random) -> Drawn:
    stations = {
        station: {"crew": [{"name": name, "role": role, "locker": rng.randint(100, 999)} for name, role in crew]}
        for station in names(rng, 5)
        for crew in [list(zip(names(rng, len(ROLES)), rng.sample(ROLES, len(ROLES)), strict=True))]
    }
    station = rng.choice(list(stations))
    member = rng.choice(stations[station]["crew"])
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
    return Drawn(wording.format(role=member["role"], station=station), answer, 1, ".json", content)


def letter_fact(rng: Random) -> Drawn:
    writer, reader, town, neighbour = names(rng, 4)
    pier, steps, boxes = rng.sample(range(112, 980), 3)
    place, other = rng.sample(PLACES, 2)
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
    letter = (
        f"Dear {reader},\n\nThank you for the parcel, which came on the first dry day in weeks. The market at {town}"
        f" went well, and we sold {boxes} boxes of seed before noon. The boat to {town} leaves from pier {pier}, since"
        f" the landing that {neighbour} recommends is closed. From the boat it is a short walk to the house,"
        f" with {steps} steps up at the end. The spare key used to hang behind the {other}, where everybody looked for"
        f" it. It hangs behind the {place} now, so please put it back there. {neighbour} has promised to feed the hens"
        f" while I am away. Bring warm socks, because the stove smokes in an east wind.\n\nYours, {writer}\n"
    )
    return Drawn(question, answer, 1, ".txt", letter.encode())


def csv_list(rng: Random) -> Drawn:
    valley, *places = names(rng, 17)
    villages = [(name, rng.randint(120, 990), rng.choice(("yes", "no"))) for name in places]
    limit = rng.randrange(350, 800, 50)
    chosen = sorted(name for name, people, well in villages if people > limit and well == "yes")
    if not 2 <= len(chosen) <= 5:
        return csv_list(rng)
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
    "csv_total": csv_total,
    "xlsx_lookup": xlsx_lookup,
    "xlsx_difference": xlsx_difference,
    "json_lookup": json_lookup,
    "letter_fact": letter_fact,
    "csv_list": csv_list,
}
