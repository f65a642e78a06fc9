"""The sample's families without an attachment: arithmetic, units of measure and puzzles with words.

FAMILIES["unit_conversion"](random.Random(1), 1).question     # "Convert 83.7 miles to kilometres. …"
"""

from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

from scripts.sample_data.toy import SYLLABLES, Drawn, Family, draw_names, round_half_up

CONVERSIONS = (  # as written in the question, and as pint knows them
    ("miles", "kilometres", "mile", "kilometer"),
    ("kilograms", "pounds", "kilogram", "pound"),
    ("feet", "metres", "foot", "meter"),
    ("litres", "US liquid gallons", "liter", "gallon"),
    ("inches", "centimetres", "inch", "centimeter"),
    ("knots", "kilometres per hour", "knot", "kilometer / hour"),
    ("degrees Fahrenheit", "degrees Celsius", "degF", "degC"),
)


def arithmetic(rng: Random, difficulty: int) -> Drawn:
    return rng.choice((_percentages, _product, _power))(rng, difficulty)


def _percentages(rng: Random, difficulty: int) -> Drawn:
    stock, *sold = rng.randint(2000, 90000), *(rng.randint(11, 49) for _ in range(difficulty))
    left = Decimal(stock)
    for percent in sold:
        left = left * (100 - percent) / 100
    later = "".join(f", then {percent} percent of what remains" for percent in sold[1:])
    question = (
        f"A granary holds {stock} kilograms of rye. {'First ' if later else ''}{sold[0]} percent of it is sold{later}."
        " How many kilograms are left? Round to two decimal places and give only the number."
    )
    return Drawn(question, round_half_up(left, 2))


def _product(rng: Random, difficulty: int) -> Drawn:
    shelves, boxes, nails = rng.randint(13, 97), rng.randint(13, 97), rng.randint(113, 997)
    bent, lost = rng.randint(1001, 9999), rng.randint(101, 999)
    rest, missing = ("straight", bent) if difficulty == 1 else ("there and straight", bent + lost)
    loss = f" {lost} others are lost." if difficulty > 1 else ""
    question = (
        f"A shop has {shelves} shelves with {boxes} boxes each, and {nails} nails in every box. {bent} nails are"
        f" bent.{loss} How many are {rest}? Give the number without thousands separators."
    )
    return Drawn(question, str(shelves * boxes * nails - missing))


def _power(rng: Random, difficulty: int) -> Drawn:
    base, exponent = rng.randint(12, 98), rng.randint(10 * difficulty, 20 * difficulty)
    divisor = rng.randint(1009, 9973)
    question = (
        f"What is the remainder when {base} to the power of {exponent} is divided by {divisor}? Give only the number."
    )
    return Drawn(question, str(pow(base, exponent, divisor)), 2)


@cache
def _registry() -> Any:
    """Of decimals, so that 2.5 feet is not 2.4999… when it is rounded."""
    import pint

    return pint.UnitRegistry(non_int_type=Decimal)


def unit_conversion(rng: Random, difficulty: int) -> Drawn:
    source, target, source_unit, target_unit = rng.choice(CONVERSIONS)
    amount = Decimal(rng.randint(1001, 49999)).scaleb(1 - difficulty)  # none, one or two decimals
    converted = _registry().Quantity(amount, source_unit).to(target_unit).magnitude
    wordings = (
        "Convert {amount} {source} to {target}. Round to two decimal places and give only the number.",
        "How much is {amount} {source} in {target}? Answer with the number alone, rounded to two decimal places.",
        "Express {amount} {source} in {target}, rounded to two decimals, without the unit.",
    )
    question = rng.choice(wordings).format(amount=amount, source=source, target=target)
    return Drawn(question, round_half_up(converted, 2))


def word_puzzle(rng: Random, difficulty: int) -> Drawn:
    puzzles: tuple[Family, ...] = (_backwards, _count_letter, _reversed_sentence)
    return rng.choice(puzzles)(rng, difficulty)


def _backwards(rng: Random, difficulty: int) -> Drawn:
    word = "".join(rng.choices(SYLLABLES, k=3 + difficulty))
    return Drawn(f"Write the word `{word}` backwards, in lower case letters. Give only the result.", word[::-1])


def _count_letter(rng: Random, difficulty: int) -> Drawn:
    text = " ".join(draw_names(rng, 5 * difficulty)).lower()
    letter = rng.choice(sorted(set(text) - {" "}))
    question = f"How often does the letter {letter} occur in this line: `{text}`? Give only the number."
    return Drawn(question, str(text.count(letter)))


def _reversed_sentence(rng: Random, difficulty: int) -> Drawn:
    words = [name.lower() for name in draw_names(rng, 3 + difficulty)]
    ordinals = (*("first", "second", "third", "fourth", "fifth")[: len(words) - 1], "last")
    word, ordinal = rng.choice(list(zip(words, ordinals, strict=True)))
    sentence = f"Answer with the {ordinal} of these words and nothing else: {', '.join(words)}."
    return Drawn(f"This sentence is written backwards; do what it says. {sentence[::-1]}", word)


FAMILIES: dict[str, Family] = {
    "arithmetic": arithmetic,
    "unit_conversion": unit_conversion,
    "word_puzzle": word_puzzle,
}
