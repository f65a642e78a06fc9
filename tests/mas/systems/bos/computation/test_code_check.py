"""Check of code before it runs."""

import pytest

from mas.systems.bos.computation.code_check import find_violation


@pytest.mark.parametrize(
    ("code", "violation"),
    [
        ("import math\nfrom statistics import mean\nmean([1, math.pi])", None),
        ("import os", "the module os may not be imported; allowed: math, statistics"),
        ("def f():\n    from os.path import join", "the module os.path may not be imported; allowed: math, statistics"),
        ("from . import x", "the module . may not be imported; allowed: math, statistics"),
        ("__import__('os')", "__import__ may not be used"),
        ("e = eval", "eval may not be used"),
        ("().__class__.__subclasses__()", "the attribute __subclasses__ may not be used"),
        ("print(type(1).__name__)", None),
    ],
)
def test_c03_imports_and_calls_beyond_a_calculation_are_found(code: str, violation: str | None) -> None:
    assert find_violation(code, ["math", "statistics"]) == violation


def test_what_is_no_python_is_no_violation() -> None:
    with pytest.raises(SyntaxError):
        find_violation("x = ", ["math"])


@pytest.mark.parametrize(
    ("code", "violation"),
    [
        ("import math, os.path", "the module os.path may not be imported; allowed: math, statistics"),
        ("import math as os", None),
        ("import math.x", None),
        ("from math import sin, os", None),
        ("from .math import x", None),
        ("x = 1\nif x:\n    import sys", "the module sys may not be imported; allowed: math, statistics"),
        *((f"{name}(1)", f"{name} may not be used") for name in ("exec", "eval", "compile", "breakpoint", "input")),
        *((f"{name}", f"{name} may not be used") for name in ("help", "exit", "quit", "__builtins__", "__loader__")),
        *(
            (f"x.{name}", f"the attribute {name} may not be used")
            for name in ("__globals__", "__builtins__", "__code__", "__loader__", "__bases__", "__base__", "__mro__")
        ),
        ("x.eval(1)", None),
        ("x.__class__", None),
        ("'eval'", None),
        ("", None),
    ],
)
def test_each_name_and_import_is_looked_at(code: str, violation: str | None) -> None:
    assert find_violation(code, ("statistics", "math")) == violation
