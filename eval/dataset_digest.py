"""Whether two runs had the same questions: one digest over all of them and over the files attached to them.

dataset_digest(examples)                                              # "9f86d081884c7d65…"
digest_in_any_order(examples) == digest_in_any_order(examples[::-1])  # True
"""

import hashlib
import json
from collections.abc import Iterable

from eval.benchmarks.example import Example


def dataset_digest(examples: Iterable[Example]) -> str:
    """SHA-256 over each question's id, text, gold answer and attachment, in the order in which they are asked.

    Raises:
        OSError: an attachment cannot be read.
    """
    return _of_lines(map(_line, examples))


def digest_in_any_order(examples: Iterable[Example]) -> str:
    """The same for a set of questions, of which the order means nothing.

    Raises:
        OSError: an attachment cannot be read.
    """
    return _of_lines(sorted(map(_line, examples)))


def file_digest(example: Example) -> str | None:
    """SHA-256 of the attachment's content; None without one.

    Raises:
        OSError: it cannot be read.
    """
    if example.file is None:
        return None
    with example.file.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _line(example: Example) -> bytes:
    fields = [example.id, example.question, example.target, file_digest(example)]
    return json.dumps(fields).encode("ascii") + b"\n"  # escapes lone surrogates


def _of_lines(lines: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()
