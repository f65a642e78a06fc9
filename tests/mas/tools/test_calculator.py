"""The calculator: right numbers, clear refusals, and no way out of arithmetic."""

import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mas.tools.calculator import MAX_EXPRESSION_CHARS, calculator
from mas.tools.results import ToolError

ESCAPES = [
    "[c for c in ().__class__.__base__.__subclasses__() if c.__name__=='_wrap_close'][0]"
    ".__init__.__globals__['system']('id')",
    *("__import__('os').system('id')", "().__class__.__mro__[1].__subclasses__()", "(1).__class__", "(1).real"),
    *("sqrt.__globals__", "sqrt.__wrapped__", "math.__dict__", "math.__loader__.load_module(1)", "open(1)", "eval(1)"),
    *("exec(1)", "getattr(1, 2)", "type(1)", "globals()", "breakpoint()", "import os", "x = 5", "(x := 5)", "1; 2"),
    *("lambda: 1", "(lambda: 1)()", "[x for x in [1]]", "sum(x for x in [1])", "'a' * 9", "b'a'", "f'{1}'", "{1: 2}"),
    *("[1, 2][0]", "sum(*[1, 2])", "round(1.5, ndigits=1)", "min([1], key=abs)", "None", "...", "2j * 2j", "sqrt"),
    *("[sqrt]", "sqrt(sqrt)", "[1] * 2 == [1, 1]", "[1] + [2] == [1, 2]", "max([1], [2]) == [2]", "[1, 2]", "1\x00"),
]
BOMBS = [
    *("9**9**9", "9**9**9**9", "2**10**10", "10**5000", "(10**3000) * (10**3000)", "pow(9, pow(9, 9))", "[1] * 10**9"),
    *("factorial(10**7)", "factorial(factorial(20))", "comb(10**9, 5 * 10**8)", "perm(10**9)", "perm(10**9, 10**8)"),
    *("comb(10**30, 10**6)", "perm(10**30, 10**6)", "comb(10**30, 10**30 - 10**6)"),
    *("round(5, -10**9)", "prod(2**9000, 2**9000)", "lcm(2**9000, 3**8000)", "1 << 10**9", "1e308 * 10", "1e999"),
    *("9" * 900 + "**" + "9" * 90, "-" * 999 + "1", "(" * 499 + "1" + ")" * 499, "1+" * 499 + "1" + " " * 2_000),
]


@pytest.mark.parametrize("attack", [*ESCAPES, *BOMBS, "nan", "inf", "", "   "], ids=lambda attack: attack[:40])
def test_every_attack_is_refused_and_none_hangs(attack: str) -> None:
    with warnings.catch_warnings(action="ignore"), pytest.raises(ToolError):
        calculator(attack)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0.1 + 0.2", "0.3"),
        ("(2 + 3) * 4", "20"),
        ("-2 ** 2", "-4"),
        ("2 ** 3 ** 2", "512"),
        ("2 ** -1", "0.5"),
        ("10 / 2", "5.0"),
        ("-7 // 2", "-4"),
        ("7 % (-3)", "-2"),
        ("2 ** 100", "1267650600228229401496703205376"),
        ("1_000 * 3", "3000"),
        ("1 < 2 < 2", "False"),
        ("not 1 == 2 and 2 >= 2", "True"),
        ("math.sqrt(2) ** 2 + math.pi * 0", "2.0"),
        ("log(8, 2)", "3.0"),
        ("degrees(pi)", "180.0"),
        ("round(1234, -2)", "1200"),
        ("abs(-3) + floor(2.7) + ceil(2.1) + trunc(-2.9)", "6"),
        ("min(1,2) + max([3, 4])", "5"),
        ("sum([1, 2, 3]) + sum(4, 5)", "15"),
        ("prod(2, 3, 4)", "24"),
        ("fsum(0.1, 0.2, 0.3)", "0.6"),
        ("max(modf(2.25)) + max(frexp(8))", "6.0"),
        ("modf(2.25)", "(0.25, 2.0)"),
        ("math.frexp(8)", "(0.5, 4)"),
        ("(-1) ** 1000001 + 1 ** 2000000", "0"),
        ("mean(1, 2, 4)", "2.33333333333333"),
        ("comb(10**9, 2)", "499999999500000000"),
        ("comb(3, 5) + perm(3, 5)", "0"),
        ("comb(10**400, 2) // 10**790 + perm(10**400, 1) // 10**400", "5000000000"),
        ("gcd(48, 18) + lcm(4, 6)", "18"),
        ("int(2.9) + float(1)", "3.0"),
        ("  tau / e  ", "2.31145469958184"),
    ],
)
def test_value(expression: str, expected: str) -> None:
    assert calculator(expression) == expected


def test_the_largest_results_are_still_given() -> None:
    assert len(calculator("factorial(1000)")) == 2568
    assert len(calculator("10**3900")) == 3901
    assert calculator("2**12999 > 0") == "True"
    with pytest.raises(ToolError, match="more than 3913 digits"):
        calculator("2**12999 * 2 > 0")


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("3^2", r"\*\* is the power"),
        ("1,000 + 1", r"1,000 is ambiguous: write 1000 for one number, 1, 000 for several"),
        ("max(100,200)", r"100,200 is ambiguous"),
        ("50%", "not a percentage"),
        ("sqrt(25%)", "not a percentage"),
        ("1/0", "division by zero"),
        ("sqrt(-1)", "cannot be calculated: (math domain error|expected a nonnegative input)"),
        ("(-8) ** (1/3)", "complex number"),
        ("2 +", "not an expression"),
        ("12\n+ 5", "not an expression"),
        ("1 in [1, 2]", "operator such as `in`"),
        ("2(3)", r"2 \* \(3\) for a product"),
        ("x + 1", "'x' is unknown; the constants are pi, e, tau, inf, nan"),
        ("sine(1)", "'sine'.*The functions are .*sqrt"),
        ("2 \u00d7 3", "no place in an expression: \u00d7"),
        ("inf", "too large"),
        ("factorial(-1)", "cannot be calculated"),
        ("factorial(2001)", "has more than 3913 digits"),
        ("(1, 2)", "no single number"),
        ("1 + 1" + " " * 10 + "+ 1" * MAX_EXPRESSION_CHARS, "at most 1000"),
    ],
)
def test_refusal_says_what_to_write_instead(expression: str, sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        calculator(expression)


# No number so small that dividing by it overflows: Python then says inf, the calculator refuses.
NUMBERS = st.integers(0, 10**6).map(str) | st.floats(1e-3, 1e6).map(repr)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        inner.map(lambda text: f"(-{text})"),
        inner.map(lambda text: f"abs({text})"),
        st.tuples(inner, inner).map(lambda p: f"max({p[0]}, {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"min({p[0]}, {p[1]})"),
        st.tuples(st.integers(0, 999).map(str), st.integers(0, 9)).map(lambda p: f"{p[0]} ** {p[1]}"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_agrees_with_python_on_arithmetic(expression: str) -> None:
    try:
        expected = eval(expression, {"__builtins__": {"abs": abs, "max": max, "min": min}})  # the grammar above alone
    except ArithmeticError:
        with pytest.raises(ToolError):
            calculator(expression)
        return
    result = calculator(expression)
    assert type(expected)(result) == (expected if isinstance(expected, int) else pytest.approx(expected, rel=1e-14))


@given(st.text(alphabet="0123456789.+-*/%()[],<>=! eE_axsqrtmincob^'\n", max_size=25) | st.text(max_size=25))
def test_any_text_gives_a_value_or_a_tool_error(text: str) -> None:
    try:
        result = calculator(text)
    except ToolError as error:
        assert str(error)
    else:
        assert result in ("True", "False") or float(result) == float(result)


def test_every_function_and_constant_of_math_is_there() -> None:
    for name in dir(math):
        if not name.startswith("_"):
            try:
                calculator(f"{name}([1])" if callable(getattr(math, name)) else name)
            except ToolError as error:
                assert "is unknown" not in str(error) and "The functions are" not in str(error), name
