"""The sample's families without an attachment: arithmetic, units of measure and puzzles with words.

FAMILIES["unit_conversion"](random.Random(1)).question     # "Convert 83.7 miles to kilometres. …"
"""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from random import Random
from typing import Any

from eval.benchmarks.sample_draw import SYLLABLES, Drawn, Family, names

CONVERSIONS = (  # as written in the question, and as pint knows them
    ("miles", "kilometres", "mile", "kilometer"),
    ("kilograms", "pounds", "kilogram", "pound"),
    ("feet", "metres", "foot", "meter"),
    ("litres", "US liquid gallons", "liter", "gallon"),
    ("inches", "centimetres", "inch", "centimeter"),
    ("knots", "kilometres per hour", "knot", "kilometer / hour"),
    ("degrees Fahrenheit", "degrees Celsius", "degF", "degC"),
)


def rounded(value: Decimal, places: int) -> str:
    """Half goes up, as at school; never in exponent form."""
    return format(value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP), "f")


def arithmetic(rng: Random) -> Drawn:
    return rng.choice((_percentages, _product, _power))(rng)


def _percentages(rng: Random) -> Drawn:
    stock, first, second = rng.randint(2000, 90000), rng.randint(11, 49), rng.randint(11, 49)
    left = Decimal(stock) * (100 - first) / 100 * (100 - second) / 100
    question = (
        f"A granary holds {stock} kilograms of rye. First {first} percent of it is sold, then {second} percent of what"
        " remains. How many kilograms are left? Round to two decimal places and give only the number."
    )
    return Drawn(question, rounded(left, 2))


def _product(rng: Random) -> Drawn:
    shelves, boxes, nails = rng.randint(13, 97), rng.randint(13, 97), rng.randint(113, 997)
    broken = rng.randint(1001, 9999)
    question = (
        f"A shop has {shelves} shelves with {boxes} boxes each, and {nails} nails in every box. {broken} nails are"
        " bent. How many are straight? Give the number without thousands separators."
    )
    return Drawn(question, str(shelves * boxes * nails - broken))


def _power(rng: Random) -> Drawn:
    base, exponent, divisor = rng.randint(12, 98), rng.randint(15, 60), rng.randint(1009, 9973)
    question = (
        f"What is the remainder when {base} to the power of {exponent} is divided by {divisor}? Give only the number."
    )
    return Drawn(question, str(pow(base, exponent, divisor)), 2)


@cache
def _registry() -> Any:
    """Of decimals, so that 2.5 feet is not 2.4999… when it is rounded."""
    import pint

    return pint.UnitRegistry(non_int_type=Decimal)


def unit_conversion(rng: Random) -> Drawn:
    source, target, source_unit, target_unit = rng.choice(CONVERSIONS)
    amount = Decimal(rng.randint(1001, 49999)) / 10
    converted = _registry().Quantity(amount, source_unit).to(target_unit).magnitude
    wordings = (
        "Convert {amount} {source} to {target}. Round to two decimal places and give only the number.",
        "How much is {amount} {source} in {target}? Answer with the number alone, rounded to two decimal places.",
        "Express {amount} {source} in {target}, rounded to two decimals, without the unit.",
    )
    question = rng.choice(wordings).format(amount=amount, source=source, target=target)
    return Drawn(question, rounded(converted, 2))


def word_puzzle(rng: Random) -> Drawn:
    puzzles: tuple[Callable[[Random], Drawn], ...] = (_backwards, _count_letter, _reversed_sentence)
    return rng.choice(puzzles)(rng)


def _backwards(rng: Random) -> Drawn:
    word = "".join(rng.choices(SYLLABLES, k=5))
    return Drawn(f"Write the word `{word}` backwards, in lower case letters. Give only the result.", word[::-1])


def _count_letter(rng: Random) -> Drawn:
    text = " ".join(names(rng, 9)).lower()
    letter = rng.choice(sorted(set(text) - {" "}))
    question = f"How often does the letter {letter} occur in this line: `{text}`? Give only the number."
    return Drawn(question, str(text.count(letter)))


def _reversed_sentence(rng: Random) -> Drawn:
    words = [name.lower() for name in names(rng, 5)]
    position = rng.randrange(5)
    ordinal = ("first", "second", "third", "fourth", "last")[position]
    sentence = f"Answer with the {ordinal} of these words and nothing else: {', '.join(words)}."
    return Drawn(f"This sentence is written backwards; do what it says. {sentence[::-1]}", words[position])


FAMILIES: dict[str, Family] = {
    "arithmetic": arithmetic,
    "unit_conversion": unit_conversion,
    "word_puzzle": word_puzzle,
}
