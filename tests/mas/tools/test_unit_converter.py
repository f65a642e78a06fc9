"""The unit converter: a table of conversions, and nothing computed from a hostile text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mas.tools.results import ToolError
from mas.tools.unit_converter import unit_converter


@pytest.mark.parametrize(
    ("quantity", "unit", "expected"),
    [
        ("10 meters", "ft", "32.8083989501 foot"),
        ("5 kg", "lbs", "11.0231131092 pound"),
        ("1 km", "mm", "1000000 millimeter"),
        ("-2.5e3 m", "km", "-2.5 kilometer"),
        (".5 hour", "minutes", "30 minute"),
        ("60 miles per hour", "km/h", "96.56064 kilometer / hour"),
        ("3 m²", "cm^2", "30000 centimeter ** 2"),
        ("1 m^-1", "cm^-1", "0.01 1 / centimeter"),
        ("5 µm", "nm", "5000 nanometer"),
        ("50 %", "ppm", "500000 ppm"),
        ("1 MW", "mW", "1000000000 milliwatt"),
        ("1 mW", "MW", "1e-09 megawatt"),
        ("2 Light Years", "KM", "1.89214609452e+13 kilometer"),
        ("0 celsius", "fahrenheit", "32 degree_Fahrenheit"),
        ("98.6 degrees Fahrenheit", "degrees C", "37 degree_Celsius"),
        ("-40 °F", "°C", "-40 degree_Celsius"),
        ("1e-9 kelvin", "mK", "1e-06 millikelvin"),
        ("3000 rpm", "Hz", "50 hertz"),
        ("50 Hz", "rpm", "3000 revolutions_per_minute"),
        ("60 rpm", "rad/s", "6.28318530718 radian / second"),
        ("500 Calories", "kJ", "2092 kilojoule"),
        ("500 calories", "kJ", "2.092 kilojoule"),
        ("3 NM", "km", "5.556 kilometer"),
        ("3 nm", "m", "3e-09 meter"),
        ("2 bbl/day", "gallon/day", "84 gallon / day"),
    ],
)
def test_conversion(quantity: str, unit: str, expected: str) -> None:
    assert unit_converter(quantity, unit) == expected


@pytest.mark.parametrize(
    ("quantity", "unit", "sentence"),
    [
        ("5 kg", "m", r"\(\[mass\]\).*\(\[length\]\)"),
        ("32 F", "C", "degC and degF for temperatures"),
        ("5 EUR", "USD", "the unit 'EUR' is unknown"),
        ("5 m", "parsnips", "the unit 'parsnips' is unknown"),
        ("1,000 m", "km", "write 1000 for a thousand"),
        ("1,5 m", "km", "1.5 for one and a half"),
        ("5", "m", "not one number followed by a unit"),
        ("", "m", "not one number followed by a unit"),
        ("5 ft 3 in", "m", "cannot be converted"),
        ("5 m", "", "is not a unit"),
        ("5 m", "km; ls", "is not a unit"),
        ("1e999 m", "km", "too large"),
        ("1 (degC)(degF)", "K", "cannot be converted|so one cannot"),
        ("10 __import__('os').system('id')", "m", "is not a unit"),
    ],
)
def test_refusal_names_the_cause(quantity: str, unit: str, sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        unit_converter(quantity, unit)


@pytest.mark.parametrize(
    ("quantity", "unit"),
    [
        *(("1 minute**9**9**9", "s"), ("1 minute^9^9^9", "s"), ("1 (minute**9)**9**9", "s"), ("1 m²^9^9^9", "s")),
        *(("1 s", "minute**9**9**9"), ("1 s", "9**9**9"), ("1 hour**99999999", "s**99999999")),
    ],
)
def test_powers_that_would_never_end_are_refused(quantity: str, unit: str) -> None:
    with pytest.raises(ToolError):
        unit_converter(quantity, unit)


@given(
    st.text(alphabet="0123456789.eE+-*/^() _mkgsdFC°%²", max_size=20), st.text(alphabet="mkgs*/^()29._- ", max_size=12)
)
def test_any_text_gives_a_value_or_a_tool_error(quantity: str, unit: str) -> None:
    try:
        assert unit_converter(quantity, unit)
    except ToolError as error:
        assert str(error)
