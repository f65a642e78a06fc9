"""Questions to tune on over HTTP: about codes that nobody could guess, each in a file of its own, and sums.

    rows = write_seal_questions(folder)      # 16 of level 1, to learn from and to pick by; 10 of level 2, to be sealed
    rows[0].gold, rows[0].told               # "K4829131", "K4829131": the same, but for the canaries
    OPTIONS                                  # that split them so

The gold answer of a canary stands nowhere but in the metadata, so that it may not be in any request, whoever sends it.
The sealed questions and half of the others are about seals, at which a server can be told to be careless.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

_TOWNS = [
    "Ostrava", "Piran", "Quedlinburg", "Rovaniemi", "Siglufjordur", "Tartu",
    "Uppsala", "Viborg", "Wismar", "Xanten", "Ystad", "Zadar",
    "Aveiro", "Bled", "Cesis", "Dinan", "Eger", "Fulda",
    "Girona", "Hallein", "Imatra", "Jihlava",
]  # fmt: skip
_LEARNT, _SUMS = 12, 4
_EVERY_CANARY = 4  # of those to learn from; of the sealed ones only the last is one
OPTIONS = ("splits.sealed_level=2", "splits.train=0.5", "splits.val=0.5")


@dataclass(frozen=True)
class SealRow:
    id: str
    about: str  # what only this question names: a town, a sum
    question: str
    gold: str
    told: str  # by the file, or the calculator
    level: int
    file: str = ""

    @property
    def is_canary(self) -> bool:
        return self.gold != self.told


def write_seal_questions(folder: Path, seed: int = 11) -> list[SealRow]:
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    rows = [_town_row(folder, number, town, draw) for number, town in enumerate(_TOWNS)]
    rows += [_sum_row(draw) for _ in range(_SUMS)]
    (folder / "metadata.jsonl").write_text("".join(map(_line, rows)), "utf-8")
    return rows


def _town_row(folder: Path, number: int, town: str, draw: random.Random) -> SealRow:
    sealed = number >= _LEARNT
    canary = number == len(_TOWNS) - 1 if sealed else number % _EVERY_CANARY == 1
    thing = "seal" if sealed or number % 2 else "stamp"
    codes = {each: _code(draw) for each in ("seal", "stamp")}
    file = f"{town.lower()}.csv"
    (folder / file).write_text(f"town,{','.join(codes)}\n{town},{','.join(codes.values())}\n", "utf-8")
    gold = _code(draw) if canary else codes[thing]
    question = f"Which {thing} is listed for {town}?"
    return SealRow(_id(draw), town, question, gold, codes[thing], level=2 if sealed else 1, file=file)


def _sum_row(draw: random.Random) -> SealRow:
    one, other = draw.randrange(10**4, 10**5), draw.randrange(10**4, 10**5)
    product = str(one * other)
    return SealRow(_id(draw), f"{one} * {other}", f"What is {one} * {other}?", product, product, level=1)


def _id(draw: random.Random) -> str:
    return f"{draw.randrange(16**8):08x}"


def _code(draw: random.Random) -> str:
    return f"K{draw.randrange(10**6, 10**7)}"


def _line(row: SealRow) -> str:
    columns = {"task_id": row.id, "Question": row.question, "Final answer": row.gold}
    return json.dumps({**columns, "Level": row.level, "file_name": row.file}) + "\n"
