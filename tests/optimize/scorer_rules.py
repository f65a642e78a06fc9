"""Rules of a user's own that fail: `FunctionScorer("tests.optimize.scorer_rules:wrong_answers_break_it")`."""

from tests.optimize.planted_runs import LATE, WRONG


def wrong_answers_break_it(question: str, answer: str | None, target: str) -> bool:
    if answer == WRONG:
        raise ZeroDivisionError("no rule for this")
    return answer == target


def sealed_answers_break_it(question: str, answer: str | None, target: str) -> bool:
    if answer == LATE:
        raise ZeroDivisionError("no rule for this")
    return answer == target


def always_right(question: str, answer: str | None, target: str) -> bool:
    return True
