"""Tool that calculates, with simpleeval and never with `eval`.

An attribute walk escapes from `eval` with an empty `__builtins__` in one line (docs/explanation/decisions.md 10). Here
simpleeval knows arithmetic and no other syntax, and each operator and function checks the size of its arguments and of
its result, so that `9**9**9` ends at once.
"""

import ast
import math
import operator
import re
import statistics
from collections.abc import Callable
from typing import Any

from mas.runtime.text import parse_python
from mas.tools.files.document import clip
from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolError, ToolResult

MAX_EXPRESSION_CHARS = 1_000
MAX_RESULT_BITS = 13_000  # about 3,900 digits: below Python's own limit of 4,300 for printing an int
MAX_WORK_BITS = 1_000_000  # of a result that is computed, to see how large it is
TOO_LARGE = f"the result has more than {int(MAX_RESULT_BITS * math.log10(2))} digits"

_Function = Callable[..., object]  # of the evaluator: each checks its arguments when it is called
_SYNTAX = (
    *(ast.Expr, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Constant),
    *(ast.List, ast.Tuple),
)
_CONSTANTS = {name: getattr(math, name) for name in ("pi", "e", "tau", "inf", "nan")}
_MISREAD = {  # what is taken for something else, and what to write instead
    r"(?<![\w.])[1-9]\d{0,2}(?:,\d{3})+(?!\d)": "{} is ambiguous: write 1000 for one number, 1, 000 for several "
    "arguments.",
    r"\^": "{} is no power here; ** is the power: write 3**2 for three squared.",
    r"%\s*(?:of\b|[-+*/%),\]<>=!]|$)": "% is the remainder, not a percentage: write 15/100 * 80 for 15% of 80, and "
    "7 % (-3) for a remainder.",
    r"(?:(?<![\w.])\d[\d.]*|\))\s*\(": "Only a function's name can stand before a parenthesis; write 2 * (3) for a "
    "product.",
    r"[^A-Za-z0-9_\s.,+\-*/%()\[\]<>=!]": "This character has no place in an expression: {}",
}


@mark_read_only
def calculator(expression: str) -> ToolResult:
    """Evaluate one arithmetic expression in Python's notation and return the number.

    Operators: + - * / // % (remainder) ** (power), parentheses, comparisons.
    Functions: all of Python's math, such as sqrt cbrt exp log(x, base) log2 log10 sin atan2 sinh degrees radians hypot
    dist erf gamma factorial comb perm gcd lcm floor ceil trunc fsum prod; and round abs min max sum mean median stdev
    pow int float. Constants: pi e tau. Angles are in radians.
    Write 1000 and not 1,000; 15/100 and not 15%; 3**2 and not 3^2.
    Example: "round(1.05 ** 10 * 2500, 2)".
    """
    text = re.sub(r"\bmath\.", "", expression.strip())  # models like to write math.sqrt(2)
    if not 0 < len(text) <= MAX_EXPRESSION_CHARS:
        raise ToolError(f"The expression has {len(text)} characters; give at least 1 and at most 1000.")
    for pattern, sentence in _MISREAD.items():
        if found := re.search(pattern, text):
            raise ToolError(sentence.format(found[0]))
    shown = clip(text, 120)
    try:
        result = _evaluate(text)
    except SyntaxError as error:
        raise ToolError(f"{shown} is not an expression in Python's notation: {error.msg}.") from error
    except (ArithmeticError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{shown} cannot be calculated: {str(error) or type(error).__name__}.") from error
    if isinstance(result, tuple) and re.match(r"(?:modf|frexp)\b", text):
        return ToolResult(f"({', '.join(map(_format, result))})")
    if not isinstance(result, int | float):
        raise ToolError(f"{shown} gives no single number; write an expression such as sum([1, 2, 3]).")
    return ToolResult(_format(result))


def _format(number: float) -> str:
    return str(number) if isinstance(number, int) else repr(float(f"{number:.15g}"))


def _evaluate(text: str) -> object:
    from simpleeval import EvalWithCompoundTypes, InvalidExpression, NameNotDefined

    evaluator = EvalWithCompoundTypes(operators=_OPERATORS, names=_CONSTANTS)
    evaluator.functions = _FUNCTIONS  # instead of its own, which build lists, dicts and random numbers
    evaluator.nodes = {kind: evaluate for kind, evaluate in evaluator.nodes.items() if kind in _SYNTAX}
    parsed = parse_python(text, "eval").body  # its own parser takes the first of several lines
    try:
        return _check_value(evaluator.eval(text, previously_parsed=parsed))
    except KeyError as error:  # the syntax of an operator that the evaluator has not
        raise TypeError("it has an operator such as `in` or `is`; only numbers can be compared") from error
    except NameNotDefined as error:
        raise ToolError(f"The name {error.name!r} is unknown; the constants are {', '.join(_CONSTANTS)}.") from error
    except InvalidExpression as error:
        raise ToolError(f"{clip(str(error), 120)} The functions are {' '.join(_FUNCTIONS)}.") from error


def _check_value(value: object) -> object:
    """Return the value; refuse what is too large to calculate with or is not a real number."""
    if isinstance(value, int) and value.bit_length() > MAX_RESULT_BITS:
        raise OverflowError(TOO_LARGE)
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("the result is too large for a decimal number; use whole numbers or log()")
    if isinstance(value, complex):
        raise ValueError("the result is a complex number; only real numbers are supported")
    return value


def _guard(function: _Function, lists: int = 0, estimate_bits: Callable[..., float] | None = None) -> _Function:
    """Make a function accept numbers alone (no `[1] * 10**9`), or lists of numbers, and check its result.

    It takes as many `lists`; the numbers of a single one may also be given one by one. `estimate_bits` of the result
    refuses one that would be too large before it is computed.
    """

    def call(*values: Any, **named: Any) -> object:
        if lists == 1 and not (len(values) == 1 and isinstance(values[0], list | tuple)):
            values = (values,)
        numbers = [number for value in values for number in value] if lists else values
        if not all(isinstance(number, int | float) for number in (*numbers, *named.values())):
            raise TypeError("a number was expected, not a list or a function's name")
        if estimate_bits is not None and estimate_bits(*values, **named) > MAX_WORK_BITS:
            raise OverflowError(TOO_LARGE)
        return _check_value(function(*values, **named))

    return call


def _estimate_power(base: float, exponent: float) -> float:
    """Return at least the bits of a power of whole numbers; a permutation or combination has fewer."""
    is_growing = isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1
    return abs(int(base)).bit_length() * exponent if is_growing else 0.0


_POWER = _guard(operator.pow, estimate_bits=_estimate_power)
_OPERATORS: dict[type[ast.AST], _Function] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.USub: operator.neg, ast.UAdd: operator.pos},
    **{ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt},
    **{ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}
_OPERATORS = {syntax: _guard(function) for syntax, function in _OPERATORS.items()} | {ast.Pow: _POWER}
_ESTIMATES: dict[str, Callable[..., float]] = {
    "factorial": lambda n: _estimate_power(n, n),
    "comb": lambda n, k: _estimate_power(n, min(k, n - k)),
    "perm": lambda n, k=None: _estimate_power(n, n if k is None else min(k, n)),
    "round": lambda _, digits=0: abs(digits) * math.log2(10),
}
_LISTS = {**dict.fromkeys(("min", "max", "sum", "prod", "fsum", "mean", "median", "stdev"), 1), "dist": 2, "sumprod": 2}
_OF_OTHERS = (abs, int, float, round, min, max, sum, statistics.mean, statistics.median, statistics.stdev)
_NAMED = {name: function for name, function in vars(math).items() if callable(function) and name[0] != "_"}
_NAMED |= {function.__name__: function for function in _OF_OTHERS}
_FUNCTIONS = {
    name: _guard(function, _LISTS.get(name, 0), _ESTIMATES.get(name)) for name, function in _NAMED.items()
} | {"pow": _POWER}
