"""Compressed blocks of data in a page, which `blocks.js` reads when a reader opens what they belong to.

    writer = BlockWriter(max_bytes=8_000_000)
    writer.add("prompts", 17, {"messages": […]}, rank=1)    # on the page: await Blocks.get("prompts", 17)
    writer.close().left_out                                  # {"prompts": 3}: there was no room for them

A block has each long text once. Where there is no room for all, values of a higher rank are left out first.
"""

import base64
import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eval.reports.html.templates import FOLDER, map_texts
from mas.runtime.text import format_count

BLOCKS = (FOLDER / "blocks.js",)
BLOCK_BYTES = 300_000  # of JSON, before it is compressed
_SHARED_CHARS = 120  # texts of this length are written once in a block
_TEXT = "\u0000"  # key of a reference to a text


class Block(NamedTuple):
    name: str
    keys: Sequence[int]
    text: str  # base64 of gzip of JSON: {"texts": […], "values": {key: value}}


@dataclass(frozen=True)
class Blocks:
    """Blocks of a page; `parts.blocks` writes them."""

    blocks: Sequence[Block]
    left_out: Mapping[str, int]  # name → values for which there was no room

    @property
    def index(self) -> dict[str, list[tuple[int, Sequence[int]]]]:
        """Return, for each name, the place of each of its blocks and the keys of the values in it."""
        index: defaultdict[str, list[tuple[int, Sequence[int]]]] = defaultdict(list)
        for place, each in enumerate(self.blocks):
            index[each.name].append((place, each.keys))
        return dict(index)

    @property
    def notes(self) -> list[str]:
        where = "right ones first; they are in records.jsonl of the run."
        left_out = sorted(self.left_out.items(), reverse=True)
        return [f"There was no room for the {name} of {format_count(n, 'answer')}, {where}" for name, n in left_out]


class _Open:
    """A block that is being filled."""

    def __init__(self) -> None:
        self.texts, self.values, self.n_chars = dict[str, int](), dict[int, str](), 0  # values as JSON

    def share(self, text: str) -> object:
        if len(text) < _SHARED_CHARS:
            return text
        if text not in self.texts:
            self.n_chars += len(text)
        return {_TEXT: self.texts.setdefault(text, len(self.texts))}


class BlockWriter:
    """Gathers values into blocks. Of one name and key, the value that was added last is kept."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: of all blocks together, as they are written."""
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._open: defaultdict[tuple[int, str], _Open] = defaultdict(_Open)
        self._closed: dict[int, list[Block]] = defaultdict(list)  # by rank
        self._full_from = math.inf  # lowest rank of which something was left out
        self._left_out: Counter[str] = Counter()

    def add(self, name: str, key: int, value: object, rank: int = 0) -> None:
        """Add a value, which JSON must be able to hold; the lowest ranks are kept the longest."""
        if rank >= self._full_from:
            self._left_out[name] += 1
            return
        block = self._open[rank, name]
        block.values[key] = json.dumps(map_texts(value, block.share), ensure_ascii=False, separators=(",", ":"))
        block.n_chars += len(block.values[key])
        if block.n_chars > BLOCK_BYTES:
            self._close(rank, name)

    def close(self) -> Blocks:
        """Return the blocks, the lowest rank first."""
        for rank, name in sorted(self._open):
            self._close(rank, name)
        return Blocks([each for rank in sorted(self._closed) for each in self._closed[rank]], dict(self._left_out))

    def _close(self, rank: int, name: str) -> None:
        block = self._open.pop((rank, name))
        values = ",".join(f'"{key}":{value}' for key, value in block.values.items())
        texts = json.dumps(list(block.texts), ensure_ascii=False)
        text = encode_data(f'{{"texts":{texts},"values":{{{values}}}}}')
        self._closed[rank].append(Block(name, list(block.values), text))
        self._n_bytes += len(text)
        while self._n_bytes > self._max_bytes:
            last = max(each for each, blocks in self._closed.items() if blocks)
            dropped = self._closed[last].pop()
            self._n_bytes -= len(dropped.text)
            self._left_out[dropped.name] += len(dropped.keys)
            self._full_from = min(self._full_from, last)


def encode_data(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
