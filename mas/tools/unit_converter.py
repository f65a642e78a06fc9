"""Tool that converts units, with pint and a strict check of its input.

pint's parser also computes (`9**9**7`), so it never gets the whole text (docs/explanation/decisions.md 10): the number
is read by a regular expression, and the units may hold one-digit exponents only, never a power of a power.
"""

import functools
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pint

from mas.tools.read_only import mark_read_only
from mas.tools.results import ToolError, ToolResult

SIGNIFICANT_DIGITS = 12
TEMPERATURE_DECIMALS = 9  # between scales with different zeros

_QUANTITY = re.compile(r"\s*([+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?)\s*(\D.*)", re.DOTALL)
_THOUSANDS = re.compile(r"\s*[+-]?\d+,\d")
_UNIT = re.compile("[A-Za-z\u00b0\u00b5\u03bc%\u00c5/*^ _.0-9()-]{1,60}")  # degree, both micro signs, angstrom
_LONG_NUMBER = re.compile(r"\d{2}")
_POWER_OF_POWER = re.compile(r"[\d)]\s*(?:\*\*|\^)")  # 2**9**9, (m**9)**9
_DEGREES = re.compile(r"deg(?:ree)?s?[ _]+(c|f|k)(?:elsius|ahrenheit|elvin)?", re.IGNORECASE)
_TEMPERATURES = {"c": "degC", "f": "degF", "k": "kelvin"}
# What people mean by names that pint takes for something else: calories, nanometres, beer barrels.
_MEANT = {"Cal": "kilocalorie", "Calorie": "kilocalorie", "Calories": "kilocalorie", "NM": "nautical_mile"}
_MEANT |= {"bbl": "oil_barrel", "bbls": "oil_barrel"}
_MEANT_NAME = re.compile(rf"(?<!\w)(?:{'|'.join(_MEANT)})(?!\w)")


@mark_read_only
def unit_converter(quantity: str, to_unit: str) -> ToolResult:
    """Convert a quantity to another unit and return the converted value with its unit.

    quantity: one number and one unit, such as "10 meters", "5 kg", "60 miles/hour", "3 m^2" or "32 fahrenheit".
    to_unit: the unit alone, such as "ft", "lbs", "km/h", "celsius". Write degC and degF (C and F are coulomb and
    farad), and 1000 rather than 1,000. Currencies are not supported.
    """
    if _THOUSANDS.match(quantity):
        raise ToolError(f"{quantity!r} holds a comma: write 1000 for a thousand and 1.5 for one and a half.")
    found, registry = _QUANTITY.fullmatch(quantity), _load_registry()
    if found is None:
        raise ToolError(f"{quantity!r} is not one number followed by a unit; write for example '10 meters'.")
    amount, from_unit = float(found[1]), found[2].strip()
    try:
        given, wanted = _parse_unit(registry, from_unit), _parse_unit(registry, to_unit)
        source, target = _read_turns(registry, given, wanted), _read_turns(registry, wanted, given)
        converted = registry.Quantity(amount, source).to(target).magnitude
        if source.dimensionality == {"[temperature]": 1} and registry.Quantity(0.0, source).to(target).magnitude:
            converted = round(converted, TEMPERATURE_DECIMALS) + 0.0  # 32 °F are 0 °C, not 5.7e-14
        if not math.isfinite(converted):
            raise OverflowError("the result is too large")
        return ToolResult(f"{converted:.{SIGNIFICANT_DIGITS}g} {wanted}")
    except ToolError:
        raise
    except Exception as error:  # pint raises anything for a text that is not a unit
        cause = str(error).rstrip(".") or "malformed unit"
        raise ToolError(
            f"{quantity!r} cannot be converted to {to_unit!r}: {cause}; give one number, and two units of "
            "the same kind (degC and degF for temperatures)."
        ) from error


@functools.cache
def _load_registry() -> "pint.UnitRegistry[float]":
    """Return pint's units, loaded once: it takes 0.1 s."""
    import pint

    return pint.UnitRegistry()


def _parse_unit(registry: "pint.UnitRegistry[float]", text: str) -> "pint.Unit":
    """Return the pint unit of a text.

    The text is tried as written, since case matters (mW, MW), in lower case (Meters), and as one word (light years).
    """
    import pint

    plain = _MEANT_NAME.sub(lambda found: _MEANT[found[0]], text.strip().replace("²", "^2").replace("³", "^3"))
    if not _UNIT.fullmatch(plain) or _LONG_NUMBER.search(plain) or _POWER_OF_POWER.search(plain):
        raise ToolError(f"{text!r} is not a unit; write one such as ft, kg, km/h, m^2 or degC.")
    if degrees := _DEGREES.fullmatch(plain):
        plain = _TEMPERATURES[degrees[1].lower()]
    for spelling in (plain, plain.lower(), plain.lower().replace(" ", "_")):
        try:
            return registry.parse_units(spelling)
        except pint.UndefinedUnitError:
            continue
    raise ToolError(f"the unit {text!r} is unknown; write its English name or its symbol, such as meter or m.")


def _read_turns(registry: "pint.UnitRegistry[float]", unit: "pint.Unit", other: "pint.Unit") -> "pint.Unit":
    """Return a unit; next to hertz, rpm is a frequency (pint takes 60 rpm for 6.28 hertz)."""
    is_frequency = str(unit) == "revolutions_per_minute" and str(other).endswith("hertz")
    return registry.Unit("1/minute") if is_frequency else unit
