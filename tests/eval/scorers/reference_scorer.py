"""A second GAIA question scorer, written from the rule's text alone; `test_gaia.py` holds the shipped one against it.

Source: the rule as quoted in the docstring of `question_scorer` below. No other implementation was read for it, so an
agreement of the two is evidence about the rule and not about one author's habits.

Example: `question_scorer("a; b", "A, b")` is True, `question_scorer("a, b.", "a, b")` is False.
"""

import math
import string
from collections.abc import Callable

Judge = Callable[[str, str], bool]  # (answer, ground truth) -> verdict

SEPARATORS = frozenset(",;")
NUMBER_SIGNS = frozenset("$%,")
PUNCTUATION = frozenset(string.punctuation)


def question_scorer(model_answer: object, ground_truth: str) -> bool:
    """The rule, in three branches:

    1. `float(ground_truth)` works: delete `$`, `%` and `,` from the answer and `float()` it, where a failure counts as
       `inf`; the two must be `==`.
    2. The ground truth contains `,` or `;`: split both at every one of them; the lengths must match; element by
       element, numbers by branch 1, everything else without whitespace, lower-cased, punctuation kept.
    3. Anything else: both without whitespace, lower-cased, then without ASCII punctuation.

    Only the ground truth picks the branch, for the whole and for each element. Never raises: `None` is the text `None`.
    """
    return judge_for(ground_truth)(str(model_answer), ground_truth)


def judge_for(truth: str) -> Judge:
    if is_number(truth):
        return same_number
    return same_text if SEPARATORS.isdisjoint(truth) else same_list


def same_number(answer: str, truth: str) -> bool:
    # `amount` leaves a numeric truth as it is: with one of the signs in it, it would not have been a number.
    return amount(answer) == amount(truth)


def same_list(answer: str, truth: str) -> bool:
    given, wanted = elements(answer), elements(truth)
    return len(given) == len(wanted) and all(map(same_element, given, wanted))


def same_element(given: str, wanted: str) -> bool:
    return same_number(given, wanted) if is_number(wanted) else squeezed(given) == squeezed(wanted)


def same_text(answer: str, truth: str) -> bool:
    return bare(answer) == bare(truth)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def amount(text: str) -> float:
    digits = "".join(char for char in text if char not in NUMBER_SIGNS)
    return float(digits) if is_number(digits) else math.inf


def elements(text: str) -> list[str]:
    return text.replace(";", ",").split(",")


def squeezed(text: str) -> str:
    return "".join(text.split()).lower()


def bare(text: str) -> str:
    return "".join(char for char in squeezed(text) if char not in PUNCTUATION)
