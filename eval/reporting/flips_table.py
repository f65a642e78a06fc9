"""The questions that flipped between two runs, for the terminal: one line a question, the answers before the question.

console.print(flips_table(made, console.width))        # made: of eval.comparison.comparing.compared
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from rich.table import Table
from rich.text import Text

from eval.comparison.comparing import flips
from eval.reporting.shown_text import one_line

MAX_FLIPS = 20  # --html and --json have all
MAX_CHARS = 200  # of a question, an answer
MIN_ID_CHARS = 8
_LEGEND = "✓ right, ✗ wrong, ! error"
# A terminal of so many columns has room for what was asked, and for its level too.
_FOR_ASKED, _FOR_LEVEL = 80, 100


def flips_table(made: Mapping[str, Any], width: int) -> Table:
    """The first of them, those with the largest difference, for a terminal of so many columns."""
    short = short_ids([flip["id"] for flip in made["flips"]])
    cut = any(id != shown for id, shown in short.items())
    caption = f"{_LEGEND}; whole ids: --json FILE" if cut else _LEGEND
    table = Table(title=Text("questions that flipped"), caption=caption, caption_justify="left")
    optional = [name for name, least in (("asked", _FOR_ASKED), ("level", _FOR_LEVEL)) if width >= least]
    table.add_column("question", no_wrap=True)  # ids that are cut look alike
    for heading in (made["against"], made["run"], "gold", *optional):
        table.add_column(heading)
    for flip, *sides in list(flips(made))[:MAX_FLIPS]:
        beside = {"asked": flip["question"], "level": flip["level"] or ""}
        cells = (short[flip["id"]], *map(_said, sides), flip["target"], *(beside[name] for name in optional))
        table.add_row(*map(one_line_cell, cells))
    return table


def one_line_cell(text: str) -> Text:
    """Cut where its column ends. Not by the column's `no_wrap`: rich would then cut the short columns like the long."""
    return Text(one_line(text, MAX_CHARS), no_wrap=True, overflow="ellipsis")


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Each id → the shortest prefix that tells it from the others, of 8 characters or more, the same for all."""
    chars = next(n for n in count(MIN_ID_CHARS) if len({each[:n] for each in ids}) == len(set(ids)))
    return {each: each[:chars] for each in ids}


def _said(answers: Sequence[str]) -> str:
    """`✓✗✓ 17, 18`: the verdicts of all epochs, then the answers that differ."""
    marks, texts = zip(*(each.split(" ", 1) for each in answers), strict=True)
    return f"{''.join(marks)} {', '.join(dict.fromkeys(texts))}"
