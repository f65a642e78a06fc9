"""Short invented questions without files: the toy data, and a dataset of any number of others.

    python scripts/sample_data/toy.py                # writes eval/benchmarks/toy/
    python eval/run.py system=toy data=toy data._target_=scripts.sample_data.toy.DrawnToyDataset +data.seed=3

The same seed makes the same questions, on every machine; splits share none.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from random import Random
from typing import TypeVar

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from eval.benchmarks.dataset import Sample, Split
from eval.benchmarks.toy_set import STORED, TOY, ToyDataset
from mas.runtime.errors import UserError

SYLLABLES = ("dra", "vel", "mo", "ri", "kes", "ta", "lun", "bo", "sha", "ner", "fi", "gol", "pa", "tim", "ze", "wor")
ENDINGS = ("n", "ck", "th", "va", "del", "ro", "mar", "s")

T = TypeVar("T")


@dataclass(frozen=True)
class Drawn:
    """A question with its target; `suffix` is empty if it has no attachment."""

    question: str
    answer: str
    level: int = 1  # GAIA's, by the kind of question; how much there is to get wrong is the difficulty
    suffix: str = ""  # ".csv"
    content: bytes = b""


Family = Callable[[Random, int], Drawn]  # the number is the difficulty, 1 to 3


def draw_names(rng: Random, count: int, alike: int = 0) -> list[str]:
    """Return different invented names, so that no model can know anything about them.

    The first is followed by `alike` that have its stem and another ending (at most 7), to be confused with it.
    """
    stem = _stem(rng)
    found = dict.fromkeys(stem + ending for ending in rng.sample(ENDINGS, alike + 1))
    while len(found) < count:
        found[_stem(rng) + rng.choice(ENDINGS)] = None
    return list(found)


def _stem(rng: Random) -> str:
    return "".join(rng.sample(SYLLABLES, 2)).capitalize()


def shuffle(rng: Random, items: Sequence[T]) -> list[T]:
    """Return the items in a random order."""
    return rng.sample(items, len(items))


def round_half_up(value: Decimal, places: int) -> str:
    """Return the rounded number, half up, never in exponent form."""
    return format(value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP), "f")


GOODS = ("ropes", "kettles", "lanterns", "candles", "blankets", "barrels", "crates", "bricks")
UNITS = (  # what is held, large unit, small unit, small ones in a large one
    ("flour", "kilograms", "grams", 1000),
    ("oil", "litres", "millilitres", 1000),
    ("cloth", "metres", "centimetres", 100),
    ("wire", "kilometres", "metres", 1000),
)


def draw_price_total(rng: Random, difficulty: int) -> Drawn:
    """Draw a purchase, and ask for its price. At difficulty 3 there is a price for something that nobody buys."""
    shop, buyer = draw_names(rng, 2)
    goods = rng.sample(GOODS, difficulty + 1)
    prices, counts = [rng.randint(3, 48) for _ in goods], [rng.randint(2, 19) for _ in goods]
    bought = goods[:-1] if difficulty == 3 else goods
    offers = "; ".join(f"{good}: {price} crowns each" for good, price in zip(goods, prices, strict=True))
    basket = _join([f"{count} {good}" for good, count in zip(bought, counts, strict=False)])
    total = sum(price * count for _, price, count in zip(bought, prices, counts, strict=False))
    wordings = (
        "The prices in {shop}'s shop are {offers}. {buyer} buys {basket}. How many crowns does {buyer} pay? Give only"
        " the number.",
        "{buyer} takes {basket} from {shop}'s shop, where the prices are {offers}. What is the bill in crowns? Answer"
        " with a plain number, without thousands separators.",
    )
    question = rng.choice(wordings).format(shop=shop, buyer=buyer, offers=offers, basket=basket)
    return Drawn(question, str(total), difficulty)


def draw_change(rng: Random, difficulty: int) -> Drawn:
    """Draw a purchase, and ask for its change."""
    (buyer,) = draw_names(rng, 1)
    goods = rng.sample(GOODS, difficulty)
    prices, counts = [_crowns(rng, 105, 2995) for _ in goods], [rng.randint(2, 3 * difficulty) for _ in goods]
    cost = sum((price * count for price, count in zip(prices, counts, strict=True)), Decimal(0))
    paid = (cost // 50 + rng.randint(1, 2)) * 50
    basket = _join(
        [f"{count} {good} at {price} crowns each" for count, good, price in zip(counts, goods, prices, strict=True)]
    )
    wordings = (
        "{buyer} buys {basket} and pays with {paid} crowns. How much change does {buyer} get? Give the number of crowns"
        " with two decimal places.",
        "For {basket}, {buyer} hands over {paid} crowns. How many crowns come back? Answer with the number alone, with"
        " two decimal places.",
    )
    question = rng.choice(wordings).format(buyer=buyer, basket=basket, paid=paid)
    return Drawn(question, round_half_up(paid - cost, 2), difficulty)


def draw_percentage(rng: Random, difficulty: int) -> Drawn:
    """Draw a rebate, then a second one on the new price, then a charge for delivery without a rebate."""
    (shop,) = draw_names(rng, 1)
    price, first, second, delivery = _crowns(rng, 4005, 89995), rng.randint(3, 37), rng.randint(3, 19), _crowns(rng)
    left = price * (100 - first) / 100
    text = f"A stove in {shop}'s shop costs {price} crowns. Its price is cut by {first} percent."
    if difficulty > 1:
        left = left * (100 - second) / 100
        text += f" A month later the new price is cut by another {second} percent."
    if difficulty > 2:
        left += delivery
        text += f" Delivery costs {delivery} crowns on top, without any rebate."
    wordings = (
        "What does it cost in the end, in crowns? Round to two decimal places and give only the number.",
        "How many crowns does it come to in the end? Answer with the number alone, rounded to two decimals.",
    )
    return Drawn(f"{text} {rng.choice(wordings)}", round_half_up(left, 2), difficulty)


def draw_unit_rule(rng: Random, difficulty: int) -> Drawn:
    """Draw amounts in two units, and ask for the answer without its unit."""
    (owner,) = draw_names(rng, 1)
    goods, large, small, factor = rng.choice(UNITS)
    stock, days = Decimal(rng.randint(41, 95)) / 10, rng.randint(2, 6)
    daily = rng.randint(factor // 20, factor // 2)
    extra = Decimal(rng.randint(11, 29)) / 10
    left = stock * factor - daily * days
    text = f"{owner} has {stock} {large} of {goods} and uses {daily} {small} a day for {days} days."
    if difficulty > 1:
        left += extra * factor
        text += f" Then {extra} {large} are delivered."
    in_large = difficulty == 3
    unit, answer = (large, round_half_up(left / factor, 2)) if in_large else (small, round_half_up(left, 0))
    form = "rounded to two decimal places, without the unit" if in_large else "without the unit"
    wordings = (
        f"How many {unit} of {goods} are left? Answer with the number, {form}.",
        f"What is left in {unit}? Give only the number, {form}.",
    )
    return Drawn(f"{text} {rng.choice(wordings)}", answer, difficulty)


def draw_sorting(rng: Random, difficulty: int) -> Drawn:
    """Draw sales, and ask for names in an order."""
    goods = rng.choice(GOODS)
    traders = draw_names(rng, 2 + 2 * difficulty, alike=difficulty - 1)
    sold = dict(zip(shuffle(rng, traders), rng.sample(range(11, 400), len(traders)), strict=True))
    log = _join([f"{trader} {count}" for trader, count in sold.items()])
    limit = sorted(sold.values())[difficulty - 1]
    orders = (
        ("Give the names from the fewest to the most, separated by commas.", sorted(sold, key=lambda name: sold[name])),
        ("Give the names from the most to the fewest, separated by commas.",
         sorted(sold, key=lambda name: -sold[name])),
        (f"Who sold more than {limit}? Give the names in alphabetical order, separated by commas.",
         sorted(name for name in sold if sold[name] > limit)),
    )  # fmt: skip
    order, answer = rng.choice(orders)
    if answer == list(sold):
        return draw_sorting(rng, difficulty)
    return Drawn(f"The {goods} sold in a week: {log}. {order}", ", ".join(answer), difficulty)


def draw_counting(rng: Random, difficulty: int) -> Drawn:
    """Draw a list, and ask for a number of its items."""
    (town,) = draw_names(rng, 1)
    goods = rng.choice(GOODS)
    sold = [rng.randint(5, 99) for _ in range(6 * difficulty)]
    low, high = sorted((rng.choice(sold), rng.choice(sold)))
    conditions = (
        (f"How many of the stalls sold more than {low}?", sum(count > low for count in sold)),
        (f"How many of the stalls sold fewer than {high}?", sum(count < high for count in sold)),
        (f"How many of the stalls sold at least {low} and at most {high}?", sum(low <= n <= high for n in sold)),
    )
    condition, answer = rng.choice(conditions)
    question = (
        f"The stalls of {town} sold these numbers of {goods}: {', '.join(map(str, sold))}. {condition} Give only the"
        " number."
    )
    return Drawn(question, str(answer), difficulty)


def draw_two_step(rng: Random, difficulty: int) -> Drawn:
    """Draw wages less expenses; shared from difficulty 2 on, with a bonus for some days at 3."""
    worker, other = draw_names(rng, 2)
    wage, days, share = rng.randint(12, 79), rng.randint(4, 19), rng.randint(2, 5)
    spent, bonus, bonus_days = rng.randint(5, 4 * wage - 1), rng.randint(2, 9), rng.randint(2, days - 1)
    saved = wage * days - spent
    text = f"{worker} earns {wage} crowns a day and works for {days} days."
    if difficulty == 3:
        saved += bonus * bonus_days
        text += f" On {bonus_days} of these days there is a bonus of {bonus} crowns."
    text += f" {worker} then spends {spent} crowns."
    if difficulty == 1:
        return Drawn(f"{text} How many crowns are left? Give only the number.", str(saved), 2)
    text += f" The rest is shared equally among {share} people, {other} being one of them."
    question = f"{text} How many crowns does {other} get? Round to two decimal places and give only the number."
    return Drawn(question, round_half_up(Decimal(saved) / share, 2), difficulty)


def _crowns(rng: Random, lowest: int = 105, highest: int = 995) -> Decimal:
    return Decimal(rng.randint(lowest, highest)) / 100


def _join(items: list[str]) -> str:
    return " and ".join(part for part in (", ".join(items[:-1]), items[-1]) if part)


FAMILIES: dict[str, Family] = {
    "price_total": draw_price_total,
    "change": draw_change,
    "percentage": draw_percentage,
    "unit_rule": draw_unit_rule,
    "sorting": draw_sorting,
    "counting": draw_counting,
    "two_step": draw_two_step,
}

DIFFICULTIES = (1, 1, 2, 2, 3)


@dataclass
class DrawnToyDataset(ToyDataset):
    """As many questions of a seed as are asked for."""

    seed: int = 0

    def check(self) -> None:
        """Raise UserError if a split would be empty."""
        for split, count in self.sizes().items():
            if count < 1:
                raise UserError(f"data.n_{split}={count} is too small; at least 1 question is needed.")

    def load(self, split: str) -> Split:
        """Draw `train`, `val` or `test`.

        Raises:
            UserError: no such split, or an empty one.
        """
        self.check()
        if split not in self.sizes():
            raise UserError(f"The toy data has no split {split!r}: use one of {', '.join(self.sizes())}.")
        return Split(tuple(sample for drawn_for, sample in self._draw_samples() if drawn_for == split))

    def _draw_samples(self) -> Iterator[tuple[str, Sample]]:
        """Yield the samples of all splits, since a question must not be repeated in a later split."""
        asked: set[str] = set()
        families = list(FAMILIES)
        for split, count in self.sizes().items():
            for index in range(count):
                family = families[index % len(families)]
                difficulty = DIFFICULTIES[index // len(families) % len(DIFFICULTIES)]
                drawn = _draw_new(family, difficulty, Random(f"{self.seed}/{split}/{index}"), asked)
                sample_id = f"toy-{self.seed}-{split}-{index:03d}"
                tags = {"kind": "none", "family": family, "difficulty": str(difficulty)}
                yield split, Sample(sample_id, drawn.question, None, drawn.answer, str(drawn.level), tags)


def _draw_new(family: str, difficulty: int, rng: Random, asked: set[str]) -> Drawn:
    while True:
        drawn = FAMILIES[family](rng, difficulty)
        if drawn.question not in asked:
            asked.add(drawn.question)
            return drawn


def main() -> None:
    TOY.mkdir(exist_ok=True)
    drawn = DrawnToyDataset(*STORED.values())
    for split in STORED:
        rows = [{key: value for key, value in asdict(each).items() if value} for each in drawn.load(split).samples]
        (TOY / f"{split}.jsonl").write_bytes("".join(f"{json.dumps(row)}\n" for row in rows).encode())
    print(f"Wrote {', '.join(STORED)} to {TOY}")


if __name__ == "__main__":
    main()
