"""A table of figures: as Markdown for people, as JSON for programs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Cell = str | float


@dataclass
class Table:
    title: str
    columns: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)  # contender → setting → every run's figures

    def add(self, cells: Sequence[Cell]) -> None:
        """A row; missing cells at its end become dashes."""
        self.rows.append([*cells, *["-"] * (len(self.columns) - len(cells))])

    def failed(self, name: str, setting: Cell, why: str) -> None:
        """A row that says that there is no figure, and the reason below the table: nothing is left out silently."""
        self.add([name, setting, "failed"])
        self.notes.append(f"{name} at {setting} failed: {why}")

    def keep(self, name: str, setting: Cell, figures: Any) -> None:
        self.kept.setdefault(name, {})[str(setting)] = figures

    def markdown(self) -> str:
        rule = "|" + "---|" * len(self.columns)
        lines = [f"### {self.title}", "", _line(self.columns), rule, *map(_line, self.rows)]
        return "\n".join([*lines, "", *[f"- {note}" for note in self.notes], ""])

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "runs": self.kept, "notes": self.notes, "columns": self.columns, "rows": self.rows}


def _line(cells: Sequence[Cell]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def write_document(page: Path, text: str) -> None:
    """Replace what is between the two comments of a page that has figures."""
    before, begin, rest = re.split(r"(<!-- figures: .* -->\n)", page.read_text("utf-8"))
    after = rest.partition("<!-- end of figures -->")[2]
    page.write_text(f"{before}{begin}\n{text.strip()}\n\n<!-- end of figures -->{after}", "utf-8")
