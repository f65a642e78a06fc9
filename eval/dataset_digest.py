"""Whether two runs had the same questions: one digest over all of them and over the files attached to them.

dataset_digest(examples)      # "9f86d081884c7d65…"
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
    digest = hashlib.sha256()
    for example in examples:
        line = json.dumps([example.id, example.question, example.target, _of_file(example)])  # escapes lone surrogates
        digest.update(line.encode("ascii") + b"\n")
    return digest.hexdigest()


def _of_file(example: Example) -> str | None:
    if example.file is None:
        return None
    with example.file.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
