"""Scorer: a number, right within a tolerance. What is read as one number is described in docs/reference/scorers.md.

NumericScorer(tolerance=0.5)("?", "$1,234.60", "1234.5").value       # 1.0
NumericScorer()("?", "about 12", "12").value                         # 0.0: not one number alone
"""

import math
import re
import unicodedata
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import NamedTuple

from eval.scorers.score import Score, Scorer, ScorerError
from mas.runtime.errors import UserError

MAX_CHARS = 200  # a longer text is no quantity
_EXACT = Context(prec=400, Emax=999_999, Emin=-999_999)  # differences never round to 0
_PLAIN = str.maketrans("\N{MINUS SIGN}\N{EN DASH}\N{HYPHEN}\N{RIGHT SINGLE QUOTATION MARK}", "---'")
_WORD = r"°?[^\W\d_]+(?:\^?-?[1-9](?![0-9.,]))?"
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?) ?(?P<currency>[$€£¥]?) ?(?P<second>[+-]?)"
    r"(?P<number>(?:[0-9]{1,3}(?:(?:,[0-9]{3})+|(?:'[0-9]{3})+|(?: [0-9]{3})+)|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?P<exponent>e[+-]?[0-9]{1,3})?"
    rf"(?: ?(?P<unit>[%$€£¥°]|{_WORD}(?:[ /·*-]{_WORD}){{0,2}}))?\.?",
    re.IGNORECASE,
)
_NOT_IN_A_UNIT = re.compile(
    r"\b(?:hundred|thousand|k|million|mio|mn|mln|mil|billion|bn|bln|mrd|trillion|tn|lakh|crore|gross|dozen|score|"
    r"ten|tenth|pair|squared|cubed|pi|e\d+|less|fewer|more|below|above|under|over|negative|wrong|hal(?:f|ves)|quarter|third|"
    r"or|to|and|not|no|plus|minus|times|point|than|if|but)(?:th)?s?\b"
)
_MAGNITUDES = ("m", "b", "t")  # `$5M` is millions, while `5 m` is metres
_PERCENT = ("percent", "per cent")


class Quantity(NamedTuple):
    value: Decimal
    unit: str  # lower case, "" if none


@dataclass
class NumericScorer(Scorer):
    """The keys of `conf/scorer/numeric.yaml`. Either tolerance is enough; both 0: the same number."""

    tolerance: float = 0.0  # absolute
    relative_tolerance: float = 0.0  # share of the gold answer

    def check(self) -> None:
        """Raise UserError for a tolerance that is negative or not a number."""
        for name in ("tolerance", "relative_tolerance"):
            if not (math.isfinite(value := getattr(self, name)) and value >= 0):
                raise UserError(f"scorer.{name}={value} is out of range; expected 0 or more.")

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        """Score one answer. ScorerError: the target is not a number."""
        gold = parse_quantity(target)
        if gold is None:
            raise ScorerError("the gold answer is not one number, so scorer=numeric cannot judge; correct it")
        said = parse_quantity(answer or "")
        if said is None:
            form = "no words around it, `.` before decimals, `,` between thousands"
            found = f"the answer is not one number alone: {form}" if (answer or "").strip() else "there is no answer"
            return Score(0.0, f"expected a number; {found}")
        if said.unit and gold.unit and said.unit != gold.unit:
            return Score(0.0, "expected a number; the answer has another unit")
        if self._is_near(said.value, gold.value):
            return Score(1.0, "right: a number, as expected")
        return Score(0.0, "expected a number; the answer is another number")

    def _is_near(self, said: Decimal, gold: Decimal) -> bool:
        relative = _EXACT.multiply(Decimal(str(self.relative_tolerance)), abs(gold))
        return _EXACT.abs(_EXACT.subtract(said, gold)) <= max(Decimal(str(self.tolerance)), relative)


def parse_quantity(text: str) -> Quantity | None:
    """Return the number that the whole text is, with its unit; None if it is anything else."""
    if len(text) > MAX_CHARS:
        return None
    found = _QUANTITY.fullmatch(" ".join(unicodedata.normalize("NFKC", text).translate(_PLAIN).split()))
    if not found or (found["sign"] and found["second"]):
        return None
    unit = (found["unit"] or "").casefold()
    if _NOT_IN_A_UNIT.search(unit) or (found["currency"] and unit in _MAGNITUDES):
        return None
    number = re.sub("[ ,']", "", found["number"])
    value = Decimal(f"{found['sign']}{found['second']}{number}{found['exponent'] or ''}")
    return Quantity(value, found["currency"] + ("%" if unit in _PERCENT else unit))
