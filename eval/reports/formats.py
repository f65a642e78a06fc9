"""Numbers in words, and tables of them for the terminal and for a page."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from eval.analysis.statistics.intervals import Interval
from mas.runtime.terminal import shorten_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable

NOT_AVAILABLE = "n/a"
MAX_NAME_CHARS = 60  # of a name from data
MAX_ERROR_CHARS = 240


def list_parts(system: str | None, model: str | None, data: str | None, prompts: str | None) -> list[str]:
    """Return what a run was made of, for one line; what is unknown is left out."""
    parts = (system, model, data, prompts and f"prompts {prompts}")
    return [shorten_line(part, MAX_NAME_CHARS) for part in parts if part]


def format_percent(share: float | None) -> str:
    return NOT_AVAILABLE if share is None else f"{share:.1%}"


def format_floor(share: float | None, incomplete: bool) -> str:
    """Return a share of right answers; while answers are missing, as the least that it can become."""
    return f"at least {format_percent(share)}" if incomplete and share is not None else format_percent(share)


def format_interval(bounds: Interval | None, form: Callable[[float], str] = format_percent) -> str:
    return " to ".join(map(form, bounds)) if bounds else NOT_AVAILABLE


def format_share(share: float | None, bounds: Interval | None, incomplete: bool = False) -> str:
    """Return a share with its interval, if it has one."""
    return format_floor(share, incomplete) + (f" ({format_interval(bounds)})" if bounds else "")


def format_points(difference: float) -> str:
    return f"{100 * difference:+.1f}"


def format_p_value(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def format_usd(cost_usd: float | None) -> str:
    return NOT_AVAILABLE if cost_usd is None else f"${cost_usd:,.4f}"


@dataclass(frozen=True)
class Table:
    """Texts in rows; columns of numbers are on the right of their cells."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Collection[str] = ()  # headings of the columns of words; the first column is one

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Headings with the class of their column: `number`, or none."""
        first, *others = self.headings
        return [(first, ""), *((title, "" if title in self.left else "number") for title in others)]

    def drop(self, *headings: str) -> "Table":
        kept = [place for place, heading in enumerate(self.headings) if heading not in headings]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Table([self.headings[place] for place in kept], rows, self.left)

    def build(self, title: str = "", whole: int = 0) -> "RichTable":
        """Return the table for a terminal, where data is no markup; the first `whole` columns are not wrapped."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=Text(title) if title else None)
        for place, (heading, kind) in enumerate(self.columns):
            justify: Literal["left", "right"] = "right" if kind else "left"
            table.add_column(Text(heading), justify=justify, overflow="fold", no_wrap=place < whole)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table
