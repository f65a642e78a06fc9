"""One table for the terminal, for Markdown and for a page.

table = Table(("job", "cost"), [("0", "$0.12")])
table.build(title="sweep"), table.render_markdown()     # on a page: parts.table(table.columns, table.rows)
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """Texts in rows; columns of numbers are on the right of their cells."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Collection[str] = ()  # headings of the columns of words; the first column is one

    @property
    def columns(self) -> list[tuple[str, str]]:
        return [(title, "" if self._is_left(place) else "number") for place, title in enumerate(self.headings)]

    def _is_left(self, place: int) -> bool:
        return place == 0 or self.headings[place] in self.left

    def drop(self, *headings: str) -> "Table":
        kept = [place for place, heading in enumerate(self.headings) if heading not in headings]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Table([self.headings[place] for place in kept], rows, self.left)

    def build(self, title: str = "", caption: str = "", whole: int = 0) -> "RichTable":
        """Return the table for a terminal, where data is no markup; the first `whole` columns are not wrapped."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=Text(title) if title else None)
        table.caption, table.caption_justify = caption or None, "left"
        for place, heading in enumerate(self.headings):
            justify: Literal["left", "right"] = "left" if self._is_left(place) else "right"
            table.add_column(Text(heading), justify=justify, overflow="fold", no_wrap=place < whole)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def render_markdown(self) -> str:
        """Return the table in Markdown; cells are data, and cannot end theirs."""
        rules = ["---" if self._is_left(place) else "---:" for place in range(len(self.headings))]
        escaped = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": " "})
        rows = (" | ".join(text.translate(escaped) for text in row) for row in (self.headings, rules, *self.rows))
        return "\n".join(f"| {row} |" for row in rows)
