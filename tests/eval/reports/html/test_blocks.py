import random
import string
from typing import Any, cast

import pytest

from eval.reports.html import blocks as module
from eval.reports.html.blocks import Blocks, BlockWriter, decode_data


def read(blocks: Blocks) -> dict[tuple[str, int], Any]:
    """All values as the page's script reads them."""

    def resolve(value: Any, texts: list[str]) -> Any:
        if isinstance(value, list):
            return [resolve(each, texts) for each in value]
        if isinstance(value, dict):
            return texts[value["\0"]] if "\0" in value else {k: resolve(v, texts) for k, v in value.items()}
        return value

    found = {}
    for each in blocks.blocks:
        data = cast(dict[str, Any], decode_data(each.text))
        found |= {(each.name, key): resolve(data["values"][str(key)], data["texts"]) for key in each.keys}
    return found


def noise(n: int) -> str:
    return "".join(random.Random(n).choices(string.ascii_letters, k=1_000))


def test_values_come_back_and_equal_texts_are_written_once() -> None:
    writer = BlockWriter(max_bytes=100_000)
    values = {n: {"prompt": "You plan. " * 100, "n": n, "parts": [noise(1), "short", None]} for n in range(20)}
    for key, value in values.items():
        writer.add("prompts", key, value)
    blocks = writer.close()
    assert read(blocks) == {("prompts", key): value for key, value in values.items()}
    assert sum(len(each.text) for each in blocks.blocks) < 2_500
    assert blocks.index == {"prompts": [(0, list(range(20)))]} and blocks.left_out == {}


def test_what_is_less_needed_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1)
    writer = BlockWriter(max_bytes=5_000)
    for n in range(6):
        writer.add("right", n, noise(n), rank=1)
    for n in range(6, 9):
        writer.add("wrong", n, noise(n), rank=0)
    blocks = writer.close()
    kept = list(read(blocks))
    assert kept[:3] == [("wrong", 6), ("wrong", 7), ("wrong", 8)] and len(kept) < 9
    assert blocks.left_out == {"right": 9 - len(kept)}
    assert sum(len(each.text) for each in blocks.blocks) <= 5_000


def test_what_turns_text_around_or_fits_no_file_is_spelt_out() -> None:
    writer = BlockWriter(max_bytes=1_000)
    writer.add("a", 1, ["x\u202ey\x00\ud83d\n", {"\u202e": 1}])
    assert read(writer.close())["a", 1] == [r"x\u202ey\u0000\ud83d" + "\n", {r"\u202e": 1}]
