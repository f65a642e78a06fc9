"""Parts of invented questions, drawn from a random generator: names, orders, rounded numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import TypeVar

SYLLABLES = ("dra", "vel", "mo", "ri", "kes", "ta", "lun", "bo", "sha", "ner", "fi", "gol", "pa", "tim", "ze", "wor")
ENDINGS = ("n", "ck", "th", "va", "del", "ro", "mar", "s")

T = TypeVar("T")


@dataclass(frozen=True)
class Drawn:
    """A question with its gold answer; `suffix` is empty if it has no attachment."""

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
