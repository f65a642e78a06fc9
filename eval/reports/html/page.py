"""What every page is made of: a template of this folder's, scripts, rows, and compressed blocks of data.

columns = [Column("question", "question", width="3fr"), Column("cause", "lost at", menu=True)]
rows = Rows("question", columns, [{"id": "q1", "question": "…", "cause": "expert"}])
writer = BlockWriter(max_bytes=8_000_000)
writer.add("prompts", 17, {"messages": […]}, rank=1)     # on the page: await Blocks.get("prompts", 17)
values = {"rows": rows, "blocks": writer.close()}
write_page(path, Path("report.html.jinja"), (*ROWS, Path("report.js")), values)      # which draws them
"""

import base64
import gzip
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls
from mas.runtime.text import format_count

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


@cache
def load_template(path: Path) -> Template:
    """Return a template in which values are escaped and a missing value is an error.

    It may extend and import the templates of this folder; `embed` writes a value as JSON into a data block, which no
    text in it ends.
    """
    loader = FileSystemLoader([path.parent, FOLDER])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["embed"] = partial(htmlsafe_json_dumps, dumps=write_json)
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


def link(**filters: str) -> str:
    return f"#?{urlencode(filters)}"


@dataclass(frozen=True)
class Column:
    """One column. A value is text, a number, None, or a list of texts (a row of several answers, or tags)."""

    key: str
    title: str
    kind: Literal["text", "usd", "seconds", "hidden"] = "text"  # hidden: not drawn, only filtered by or searched
    width: str = "1fr"  # of CSS grid
    menu: bool = False  # filtered by a menu of its values; if it is hidden, too, it is not searched


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
    note: str  # about values for which there was no room


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
        data = f'{{"texts":{_dump(list(self.texts))},"values":{{{values}}}}}'
        return Block(name, list(self.values), encode_data(data))


class BlockWriter:
    """Gathers values into compressed blocks, in each of which a long text is written once.

    Where there is no room for all, values of a higher rank are left out first.
    """

    def __init__(self, max_bytes: int) -> None:
        self.keys = count(1)  # for values of any name
        self._max_bytes = max_bytes  # of all blocks together, as they are written
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
        what = " and ".join(f"the {name} of {format_count(n, 'answer')}" for name, n in sorted(left_out.items()))
        note = f"There was no room for {what}, right ones first; they are in records.jsonl of the run."
        return Blocks(kept, note if what else "")


def encode_data(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
