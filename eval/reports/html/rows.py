"""Rows of a page that are filtered, sorted and opened by `rows.js`.

columns = [Column("question", "question", width="3fr"), Column("cause", "lost at", menu=True)]
Rows("questions", columns, [{"id": "q1", "question": "…", "cause": "expert"}])
A template that imports `parts.html.jinja` shows them with `parts.rows (questions)`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from eval.reports.html.blocks import BLOCKS, encode_data
from eval.reports.html.templates import FOLDER, write_json

Kind = Literal["text", "number", "usd", "seconds", "hidden"]

ROWS = (*BLOCKS, FOLDER / "rows.js")
STEPS = (FOLDER / "steps.js", FOLDER / "answers.js")  # after the rows: what opens in them
MAX_PLAIN_CHARS = 300_000  # of the rows as JSON; more are compressed


@dataclass(frozen=True)
class Column:
    """One column. A value is text, a number, None, or a list of texts (a row of several answers, or tags).

    `hidden` is not drawn, but is filtered by and searched.
    """

    key: str
    title: str
    kind: Kind = "text"
    width: str = "1fr"  # of CSS grid
    menu: bool = False  # filtered by a menu of its values
    find: bool = True  # texts are searched


@dataclass(frozen=True)
class Rows:
    """A table of rows; each has an `id` that is unique on the page: `page.html#id` opens it."""

    name: str
    columns: Sequence[Column]
    values: Iterable[Mapping[str, object]]
    noun: str = "question"

    @cached_property
    def compressed(self) -> str:
        text = write_json(self.data)
        return encode_data(text) if len(text) > MAX_PLAIN_CHARS else ""

    @cached_property
    def data(self) -> dict[str, object]:
        keys = ["id", *(each.key for each in self.columns)]
        rows = [[row[key] for key in keys] for row in self.values]
        return {
            "name": self.name,
            "noun": self.noun,
            "columns": list(map(vars, self.columns)),
            "keys": keys,
            "rows": rows,
        }
