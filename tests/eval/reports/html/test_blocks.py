import base64
import random
import string
from typing import Any, cast

import pytest

from eval.reports.html import blocks as module
from eval.reports.html.blocks import Blocks, BlockWriter, decode_data, encode_data


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


def keys_of_blocks(*texts: str, rank: int = 0, max_bytes: int = 100_000) -> list[list[int]]:
    writer = BlockWriter(max_bytes)
    for key, text in enumerate(texts):
        writer.add("a", key, text, rank)
    return [list(each.keys) for each in writer.close().blocks]


def test_a_block_is_closed_when_it_has_more_than_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 10)
    assert keys_of_blocks("abc", "def", "ghi", "jkl") == [[0, 1, 2], [3]], "five characters of JSON each"
    assert keys_of_blocks("abc", "defg", "ghi") == [[0, 1], [2]]


def test_a_long_text_counts_once_in_its_block_and_is_a_reference_there(monkeypatch: pytest.MonkeyPatch) -> None:
    text, reference = "x" * 120, 12  # characters of {"\u0000":0}
    monkeypatch.setattr(module, "BLOCK_BYTES", 120 + 2 * reference)
    assert keys_of_blocks(*[text] * 4) == [[0, 1, 2], [3]]
    monkeypatch.setattr(module, "BLOCK_BYTES", 120 + reference - 1)
    assert keys_of_blocks(text, text) == [[0], [1]]
    monkeypatch.undo()
    writer = BlockWriter(100_000)
    for key, each in enumerate(["y" * 119, text, "z" * 121, text]):
        writer.add("a", key, each)
    writer.add("a", 4, {"parts": (text, 1)})
    (block,) = writer.close().blocks
    assert decode_data(block.text) == {
        "texts": [text, "z" * 121],
        "values": {"0": "y" * 119, "1": {"\0": 0}, "2": {"\0": 1}, "3": {"\0": 0}, "4": {"parts": [{"\0": 0}, 1]}},
    }


def test_there_is_room_for_exactly_as_many_bytes_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1)
    writer = BlockWriter(100_000)
    for key in range(3):
        writer.add("a", key, noise(key))
    size = sum(len(each.text) for each in writer.close().blocks)
    texts = [noise(key) for key in range(3)]
    assert keys_of_blocks(*texts, max_bytes=size) == [[0], [1], [2]]
    assert keys_of_blocks(*texts, max_bytes=size - 1) == [[0], [1]]


def test_of_a_rank_of_which_something_was_left_out_nothing_more_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1)
    one = len(encode_data(f'{{"texts":["{noise(0)}"],"values":{{"0":{{"\\u0000":0}}}}}}'))
    writer = BlockWriter(int(2.5 * one))
    added = [("c", 2), ("b", 1), ("a", 0), ("c", 2), ("d", 3), ("a", 0), ("b", 1), ("e", 1)]
    for key, (name, rank) in enumerate(added):
        writer.add(name, key, noise(key), rank)
    blocks = writer.close()
    assert [(each.name, list(each.keys)) for each in blocks.blocks] == [("a", [2]), ("a", [5])]
    assert blocks.left_out == {"c": 2, "d": 1, "b": 2, "e": 1}
    assert blocks.index == {"a": [(0, [2]), (1, [5])]}


def test_of_a_key_the_value_that_was_added_last_is_kept_and_what_is_still_open_is_written() -> None:
    writer = BlockWriter(100_000)
    for name, key, value, rank in (("b", 1, "old", 1), ("b", 1, "new", 1), ("a", 2, 5, 1), ("c", 3, None, 0)):
        writer.add(name, key, value, rank)
    blocks = writer.close()
    assert [each.name for each in blocks.blocks] == ["c", "a", "b"], "the lowest rank first"
    assert read(blocks) == {("c", 3): None, ("a", 2): 5, ("b", 1): "new"}
    assert blocks.left_out == {}


def test_a_text_is_always_encoded_alike_without_a_time() -> None:
    assert encode_data('["ä"]') == encode_data('["ä"]')
    assert base64.b64decode(encode_data("[]"))[4:8] == bytes(4)
    assert decode_data(encode_data('["ä"]')) == ["ä"]
