"""Check of code before it runs."""

import pytest

from mas.systems.bos.computation.agent import find_violation


@pytest.mark.parametrize(
    ("code", "violation"),
    [
        ("import math\nfrom statistics import mean\nmean([1, math.pi])", None),
        ("import os", "the module os may not be imported; allowed: math"),
        ("def f():\n    from os.path import join", "the module os.path may not be imported; allowed: math"),
        ("from . import x", "the module . may not be imported; allowed: math"),
        ("__import__('os')", "__import__ may not be used"),
        ("e = eval", "eval may not be used"),
        ("().__class__.__subclasses__()", "__subclasses__ may not be used"),
        ("print(type(1).__name__)", None),
        ("import statistics\nstatistics.random._os.system('id')", "reaches a module that may not be imported"),
        ("def f():\n    return m.sys.modules\nimport math as m", "m.sys may not be used"),
        ("from statistics import sys as s", "the module sys may not be imported"),
        ("rows.os.mean()", None),
    ],
)
def test_c03_imports_and_calls_beyond_a_calculation_are_found(code: str, violation: str | None) -> None:
    found = find_violation(code)
    assert found is None if violation is None else found is not None and violation in found
