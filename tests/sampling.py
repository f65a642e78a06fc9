"""Long tables of cases: `make test` tries one in three of them, `make test-slow` the others."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], ids: Iterable[str] | None = None) -> list[Any]:
    """Return the cases as parameters of a test, of which two in three are slow."""
    made = []
    names = iter(ids) if ids is not None else None
    for number, case in enumerate(cases):
        marks = [pytest.mark.slow] if number % 3 else []
        values = case if isinstance(case, tuple) else (case,)
        made.append(pytest.param(*values, marks=marks, id=next(names) if names else None))
    return made
