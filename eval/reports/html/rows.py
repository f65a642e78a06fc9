"""Rows of a page that are filtered, sorted and opened by `rows.js`.

columns = [Column("question", "question", width="3fr"), Column("cause", "lost at", menu=True, read=find_cause)]
Rows("questions", columns, [{"id": "q1", "question": "…"}])
A template that imports `parts.html.jinja` shows them with `parts.rows (questions)`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from eval.reports.html.blocks import BLOCKS, encode_data
from eval.reports.html.templates import FOLDER, write_json

Kind = Literal["text", "number", "percent", "points", "usd", "seconds", "mark", "hidden"]

ROWS = (*BLOCKS, FOLDER / "rows.js")
STEPS = (FOLDER / "words.js", FOLDER / "steps.js", FOLDER / "answers.js")  # after the rows: what opens in them
MAX_PLAIN_CHARS = 300_000  # of the rows as JSON; more are compressed


@dataclass(frozen=True)
class Column:
    """One column. A value is text, a number, None, or a list of texts (a row of several answers, or tags).

    `mark` draws a verdict (right, partial, wrong, error, not run, unscored) with its sign; `hidden` is not drawn, but
    is filtered by and searched.
    """

    key: str
    title: str
    kind: Kind = "text"
    width: str = "1fr"  # of CSS grid
    menu: bool = False  # filtered by a menu of its values
    find: bool = True  # texts are searched
    read: Callable[[Any], object] | None = None  # the value of a row; None: the row's own, by the key


@dataclass(frozen=True)
class Rows:
    """A table of rows; each has an `id` that is unique on the page: `page.html#id` opens it. A column may read it."""

    name: str
    columns: Sequence[Column]
    values: Iterable[Any]
    noun: str = "question"

    @cached_property
    def compressed(self) -> str:
        """Return the rows compressed if they are many, else an empty text."""
        text = write_json(self.data)
        return encode_data(text) if len(text) > MAX_PLAIN_CHARS else ""

    @cached_property
    def data(self) -> dict[str, object]:
        """Return what the script reads: a list per row, in the columns' order, the id first."""
        shown = [each for each in self.columns if each.key != "id"]
        ids = [each for each in self.columns if each.key == "id"] or [Column("id", "id")]
        return {
            "name": self.name,
            "noun": self.noun,
            "columns": [{key: value for key, value in vars(each).items() if key != "read"} for each in shown],
            "keys": [each.key for each in (*ids, *shown)],
            "rows": [[_read(row, each) for each in (*ids, *shown)] for row in self.values],
        }


def _read(row: Any, column: Column) -> object:
    if column.read is not None:
        return column.read(row)
    return row.get(column.key) if isinstance(row, Mapping) else getattr(row, column.key)
