"""What every page is made of: a template of this folder's, scripts, charts, rows, and compressed blocks of data.

columns = [Column("question", "question", width="3fr"), Column("cause", "lost at", menu=True)]
lost = Chart("Points lost", [Bar("expert", 12, "12 (7 to 19)", (7, 19), "wrong", href="#?cause=expert")])
writer = BlockWriter(max_bytes=8_000_000)
writer.add("prompts", 17, {"messages": […]}, rank=1)     # on the page: await Blocks.get("prompts", 17)
rows = Rows("question", columns, [{"id": "q1", "question": "…", "cause": "expert"}])
values = {"charts": [lost], "rows": rows, "blocks": writer.close()}
write_page(path, Path("report.html.jinja"), (*ROWS, Path("report.js")), values)      # which draws them
"""

import base64
import functools
import gzip
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from eval.analysis.statistics.intervals import Interval
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls
from mas.runtime.text import format_count

Tone = Literal["wrong", "error", "accent"]
Kind = Literal["text", "usd", "seconds", "hidden"]

FOLDER = Path(__file__).parent
ROWS = (FOLDER / "blocks.js", FOLDER / "rows.js")
STEPS = (FOLDER / "steps.js", FOLDER / "answers.js")  # after the rows: what opens in them
BLOCK_BYTES = 300_000  # of JSON, before it is compressed
_SHARED_CHARS = 120  # texts of this length are written once in a block
_TEXT = "\u0000"  # key of a reference to a text


class Scripts(NamedTuple):
    """Scripts of a page, and the source list of its Content-Security-Policy that lets no other script run."""

    texts: tuple[Markup, ...]
    policy: str  # "'sha256-…' 'sha256-…'"


@functools.cache
def load_template(path: Path) -> Template:
    """Return a template in which values are escaped and a missing value is an error.

    It may extend and import the templates of this folder; `embed` writes a value as JSON into a data block.
    """
    environment = Environment(
        loader=FileSystemLoader([path.parent, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["embed"] = _embed_json
    return environment.get_template(path.name)


def write_page(path: Path, template: Path, scripts: Sequence[Path], values: Mapping[str, object]) -> None:
    """Write a page with its scripts; raise OSError if it cannot be written, and leave one that is already there."""
    stream = load_template(template).stream(values, scripts=load_scripts(*scripts))
    stream.enable_buffering(64)  # events of the template that are written at once
    with write_atomically(path) as file:
        file.writelines(map(escape_controls, stream))


def load_scripts(*paths: Path) -> Scripts:
    """Return scripts as they are, in this order."""
    texts = [path.read_text(encoding="utf-8") for path in paths]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return Scripts(tuple(map(Markup, texts)), " ".join(f"'sha256-{digest}'" for digest in digests))


def _embed_json(value: object) -> Markup:
    """Return a value as JSON that can stand in a `<script type="application/json">`: no text in it ends the block."""
    return htmlsafe_json_dumps(map_texts(value, str), dumps=_dump)


def write_json(value: object) -> str:
    """Return a value as short JSON; characters that cannot be seen, or that turn text around, are spelt out in it."""
    return _dump(map_texts(value, str))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def map_texts(value: object, change: Callable[[str], object]) -> object:
    """Return a copy with every text in it, without such characters, changed; keys are kept."""
    if isinstance(value, str):
        return change(escape_controls(value))
    if isinstance(value, Mapping):
        return {escape_controls(str(name)): map_texts(each, change) for name, each in value.items()}
    return [map_texts(each, change) for each in value] if isinstance(value, list | tuple) else value


class Bar(NamedTuple):
    label: str
    value: float  # its length; not negative
    text: str  # the value in words, and what else is to be known
    bounds: Interval | None = None  # of the value
    tone: Tone = "accent"
    href: str = ""  # "#id" opens a row, "#?cause=expert" filters the rows


@dataclass(frozen=True)
class Chart:
    title: str  # the sentence that the chart answers
    bars: Sequence[Bar]
    longest: float | None = None  # value of a bar of the whole width; None: from the data
    mark: float | None = None  # a line across all bars, as at the run's own mean

    def find_place(self, value: float) -> str:
        """Return a value's place in the width of the chart, for CSS."""
        longest = self.longest or max(each.bounds[1] if each.bounds else each.value for each in self.bars)
        return f"{100 * value / longest if longest else 0:.2f}%"


def link(**filters: str) -> str:
    return f"#?{urlencode(filters)}"


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

    noun: str  # of a row
    columns: Sequence[Column]
    values: Sequence[Mapping[str, object]]  # what is in no column is for the page's own script

    @property
    def data(self) -> str:
        shown = {"noun": self.noun, "columns": list(map(asdict, self.columns)), "rows": self.values}
        return encode_data(write_json(shown))


class Block(NamedTuple):
    name: str
    keys: Sequence[int]
    text: str  # base64 of gzip of JSON: {"texts": […], "values": {key: value}}


class Blocks(NamedTuple):
    """Blocks of a page; `parts.blocks` writes them."""

    blocks: Sequence[Block]
    notes: Sequence[str]  # about values for which there was no room


class _OpenBlock:
    """A block that is being filled."""

    def __init__(self) -> None:
        self.texts, self.values, self.n_chars = dict[str, int](), dict[int, str](), 0  # values as JSON

    def add(self, key: int, value: object) -> None:
        self.values[key] = _dump(map_texts(value, self._share))
        self.n_chars += len(self.values[key])

    def _share(self, text: str) -> object:
        if len(text) < _SHARED_CHARS:
            return text
        self.n_chars += 0 if text in self.texts else len(text)
        return {_TEXT: self.texts.setdefault(text, len(self.texts))}

    def close(self, name: str) -> Block:
        values = ",".join(f'"{key}":{value}' for key, value in self.values.items())
        return Block(
            name, list(self.values), encode_data(f'{{"texts":{_dump(list(self.texts))},"values":{{{values}}}}}')
        )


class BlockWriter:
    """Gathers values into compressed blocks, in each of which a long text is written once.

    Where there is no room for all, values of a higher rank are left out first.
    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: of all blocks together, as they are written."""
        self.keys = count(1)  # for values of any name
        self._max_bytes = max_bytes
        self._open: defaultdict[tuple[int, str], _OpenBlock] = defaultdict(_OpenBlock)  # by rank and name
        self._closed: list[tuple[int, Block]] = []

    def add(self, name: str, key: int, value: object, rank: int = 0) -> None:
        """Add a value, which JSON must be able to hold."""
        block = self._open[rank, name]
        block.add(key, value)
        if block.n_chars > BLOCK_BYTES:
            self._closed.append((rank, self._open.pop((rank, name)).close(name)))

    def close(self) -> Blocks:
        """Return the blocks for which there is room, the lowest rank first."""
        self._closed += [(rank, block.close(name)) for (rank, name), block in self._open.items()]
        kept, left_out, room = list[Block](), Counter[str](), self._max_bytes
        for _, block in sorted(self._closed, key=lambda each: each[0]):
            if len(block.text) <= room:
                room -= len(block.text)
                kept.append(block)
            else:
                left_out[block.name] += len(block.keys)
        where = "right ones first; they are in records.jsonl of the run."
        answers = {name: format_count(n, "answer") for name, n in sorted(left_out.items(), reverse=True)}
        return Blocks(kept, [f"There was no room for the {name} of {n}, {where}" for name, n in answers.items()])


def encode_data(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
