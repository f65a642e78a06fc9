"""Check of an answer in words against the value that is expected in it.

    is_right_answer({"type": "number", "value": 47}, "There are 47 orders in 2025.", "How many?")   # True

Types: number and numbers (with `tolerance`), text, list (`ordered` if the order counts), refusal (the answer says that
it could not or may not be done), empty (the answer says that there is nothing). `not`: texts that must not be in it.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence

from eval.scorers.contains import ContainsScorer
from eval.scorers.score import ScorerError

TYPES = ("number", "numbers", "text", "list", "refusal", "empty")
MAX_OTHER_NUMBERS = 3  # besides the expected one and those of the question; an answer with more offers a choice
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?")
_NUMBER = re.compile(r"(?<![\w.,])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\d])")
_REFUSAL = re.compile(
    r"\b(?:can ?not|can't|could not|couldn't|unable|not able|may not|must not|"
    r"not (?:allowed|permitted|possible|available|accessible|set up)|"
    r"refus\w+|declin\w+|failed|fails|no access|read-only|no agent)\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"\b(?:no(?:t any|ne|thing)?|zero|0|empty|without any|does not (?:have|contain)|do not (?:have|exist))\b",
    re.IGNORECASE,
)


def is_right_answer(expected: Mapping[str, object], answer: str | None, question: str) -> bool:
    """Return whether the answer holds what is expected.

    Raises:
        ScorerError: the expectation cannot be read.
    """
    kind, value = expected.get("type", "text"), expected.get("value")
    if kind not in TYPES:
        raise ScorerError(f"the expected answer has the type {kind!r}; choose one of: {', '.join(TYPES)}")
    text = unicodedata.normalize("NFKC", answer or "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").strip()
    if not text or any(_holds(text, str(each)) for each in as_list(expected.get("not"))):
        return False
    if kind in ("number", "numbers"):
        values = [value] if kind == "number" else as_list(value)
        return _holds_numbers(values, expected.get("tolerance", 0), text, question)
    if kind == "refusal":
        return _REFUSAL.search(text) is not None
    if kind == "empty":
        return _EMPTY.search(text) is not None and _REFUSAL.search(text) is None
    if kind == "text":
        return _holds(text, str(value))
    items = [str(each) for each in as_list(value)]
    return all(_holds(text, item) for item in items) and (not expected.get("ordered") or _is_in_order(text, items))


def _holds(text: str, item: str) -> bool:
    return ContainsScorer()("", text, item).value == 1


def _is_in_order(text: str, items: list[str]) -> bool:
    lowered = text.casefold()
    places = [lowered.find(item.casefold()) for item in items]
    return -1 not in places and places == sorted(places)


def _holds_numbers(values: Sequence[object], tolerance: object, text: str, question: str) -> bool:
    try:
        wanted, margin = [float(str(value)) for value in values], max(float(str(tolerance)), 1e-9)
    except ValueError as error:
        raise ScorerError("the expected answer is of the type number and has no number as its value") from error
    found = _read_numbers(text)
    near = [{each for each in found if math.isclose(each, value, rel_tol=1e-9, abs_tol=margin)} for value in wanted]
    return all(near) and len(found - set().union(*near) - _read_numbers(question)) <= MAX_OTHER_NUMBERS


def _read_numbers(text: str) -> set[float]:
    return {float(each.replace(",", "")) for each in _NUMBER.findall(_DATE.sub(" ", text))}


def as_list(value: object) -> list[object]:
    """Return a list or tuple as a list; anything else is empty."""
    return list(value) if isinstance(value, list | tuple) else []
