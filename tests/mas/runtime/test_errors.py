"""The errors that one comes from: what caused it, what was being handled, and errors that cause themselves."""

import pytest

from mas.runtime.errors import walk_chain
from mas.runtime.stack_trace import format_stack


def catch(*, named: bool) -> BaseException:
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            if named:
                raise KeyError("second") from error
            raise KeyError("second") from None
    except KeyError as error:
        return error


@pytest.mark.parametrize(
    ("named", "contexts", "expected"),
    [
        (True, False, [KeyError, ValueError]),
        (True, True, [KeyError, ValueError]),
        (False, False, [KeyError]),
        (False, True, [KeyError, ValueError]),
    ],
)
def test_causes_come_after_the_error_and_contexts_when_asked_for(
    named: bool, contexts: bool, expected: list[type]
) -> None:
    assert [type(each) for each in walk_chain(catch(named=named), contexts=contexts)] == expected


def test_without_an_error_there_is_nothing() -> None:
    assert list(walk_chain(None)) == []


def cause_itself() -> ValueError:
    error = ValueError("in a circle")
    error.__cause__ = TypeError("half way")
    error.__cause__.__cause__ = error
    return error


def test_an_error_among_its_own_causes_is_met_once() -> None:
    assert [type(each) for each in walk_chain(cause_itself())] == [ValueError, TypeError]
    assert format_stack(cause_itself()).splitlines() == ["TypeError: half way", "ValueError: in a circle"]
