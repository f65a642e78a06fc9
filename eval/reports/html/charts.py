"""Charts of a page: data that `charts.js` draws with Observable Plot, and that is a table for those who cannot see it.

lost = Chart("bars", "Points lost", [Point("expert", 12, low=7, high=19, tone="wrong", href="#?cause=expert")])
A template that imports `parts.html.jinja` draws it with `parts.chart (lost)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from eval.reports.html.templates import FOLDER

Format = Literal["number", "percent", "points", "seconds"]  # points: percentage points with their sign
Tone = Literal["", "right", "wrong", "error", "quiet", "accent"]

CHARTS = (FOLDER / "vendor" / "d3.min.js", FOLDER / "vendor" / "plot.umd.min.js", FOLDER / "charts.js")


@dataclass(frozen=True)
class Point:
    """One bar or dot; `low` and `high` bound it."""

    label: str
    x: float
    low: float | None = None
    high: float | None = None
    group: str = ""  # those of one label are below each other
    tone: Tone = ""  # colour by meaning; empty: by group
    note: str = ""  # shown behind the bar, and when the pointer is over it
    href: str = ""  # "#id" opens a row, "#?cause=expert" filters the rows


@dataclass(frozen=True)
class Chart:
    kind: Literal["bars", "dots"]
    title: str  # the sentence that the chart answers
    points: Sequence[Point]
    x_label: str = ""
    x_format: Format = "number"
    x_domain: tuple[float, float] | None = None  # None: from the data
    x_mark: float | None = None  # a line across the chart: no difference, the run's own mean

    @property
    def data(self) -> dict[str, object]:
        return _drop_empty({**vars(self), "points": [_drop_empty(vars(each)) for each in self.points]})

    @property
    def table(self) -> tuple[list[tuple[str, str]], list[list[str]]]:
        """Return columns and rows of the chart as a table, as `parts.table` takes them; empty columns are left out."""
        titles = ["name", "group", self.x_label or "value", "95% interval", "note"]
        rows = []
        for each in self.points:
            value, low, high = (format_number(number, self.x_format) for number in (each.x, each.low, each.high))
            rows.append([each.label, each.group, value, "" if each.low is None else f"{low} to {high}", each.note])
        filled = [at for at in range(len(titles)) if any(row[at] for row in rows)]
        return [(titles[at], "") for at in filled], [[row[at] for at in filled] for row in rows]


def link(**filters: str) -> str:
    return f"#?{urlencode(filters)}"


def _drop_empty(values: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value not in (None, "")}


def format_number(value: float | None, form: Format) -> str:
    if value is None:
        return "n/a"
    match form:
        case "percent":
            return f"{value:.1%}"
        case "points":
            return f"{100 * value:+.1f}"
        case "seconds":
            return f"{value:.2g} s" if value < 1 else f"{value:,.1f} s"
    return f"{value:,.4g}" if value != int(value) else f"{value:,.0f}"
