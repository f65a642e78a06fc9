"""Work on foreign bytes, done in the reader process or, for a small input, in this one.

A task is a function of bytes and arguments, named as `module:function`. It returns facts, which the run reads, and
possibly packed values, which the run keeps and hands to the next task without looking into them.

    answer = run_task("mas.tools.files.kinds:read_source", b"a,b", {"name": "a.csv", "member": None, …})
    answer.facts["summary"]                # "table with 2 columns …"
    unpack(answer.packed)["parts"]
"""

import importlib
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mas.tools.results import ToolError

MAX_PACKED_BYTES = 64 * 1024 * 1024  # of one document, as the run keeps it
MAX_UNPACKED_BYTES = 700 * 1024 * 1024
SMALL_BYTES = 8 * 1024  # of an input that is parsed in this process if its kind is simple; nested JSON grows 900-fold
SMALL_PACKED_BYTES = 16 * 1024  # of a document that is paged and searched in this process: about 100 kB of text
TOO_MUCH = "{name} took more time or memory than a file may, and is not read; go on without it."

Facts = dict[str, Any]  # values for JSON
Arguments = Mapping[str, object]  # values for JSON, with the `name` that messages give the bytes
Task = Callable[[bytes, Any], "Answer"]


class Answer(NamedTuple):
    """Result of a task."""

    facts: Facts
    packed: bytes = b""


def run_task(task: str, data: bytes, arguments: Arguments) -> Answer:
    """Run a task in this process.

    Raises:
        ToolError: the bytes cannot be read.
    """
    module, _, function = task.partition(":")
    run: Task = getattr(importlib.import_module(module), function)
    return run(data, arguments)


def pack(value: object) -> bytes:
    """Return values for JSON in a compact form.

    Raises:
        ToolError: they are too large to be kept.
    """
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    packed = zlib.compress(text, 1)
    if len(packed) > MAX_PACKED_BYTES or len(text) > MAX_UNPACKED_BYTES:
        raise ToolError(f"The text in it has more than {MAX_UNPACKED_BYTES} bytes; it is not read.")
    return packed


def unpack(packed: bytes) -> Any:
    """Return the values that `pack` was given."""
    text = zlib.decompressobj().decompress(packed, MAX_UNPACKED_BYTES)
    return json.loads(text.decode("utf-8", "surrogatepass"))
