"""A short mark by which a question is known again, under another id as well.

It does not hold the question's text; a short question, or one made from a template, can be guessed and checked.

question_mark("What is  2 + 3?") == question_mark("what is 2 + 3?")      # True
question_mark("How many rows are there?", file_sha256="9f86d081…")       # another attachment: another question
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable
from hashlib import sha256

from eval.benchmarks.dataset import Sample

_CHARS = 16


def compute_fingerprint(text: str, file_sha256: str | None = None) -> str:
    """The beginning of a SHA-256 in hexadecimal digits.

    Args:
        text: of the question.
        file_sha256: of its attachment's content; None: there is none, or it does not count.
    """
    content = normalise_question(text) + (f"\n{file_sha256}" if file_sha256 else "")
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_CHARS]


def normalise_question(text: str) -> str:
    """A question's words alone: case, spaces and compatibility forms do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def compute_dataset_digest(samples: Iterable[Sample]) -> str:
    """SHA-256 over each question's id, text, gold answer and attachment, in the order in which they are asked.

    Raises:
        OSError: an attachment cannot be read.
    """
    return _of_lines(map(_line, samples))


def compute_unordered_digest(samples: Iterable[Sample]) -> str:
    """The same for a set of questions, of which the order means nothing.

    Raises:
        OSError: an attachment cannot be read.
    """
    return _of_lines(sorted(map(_line, samples)))


def compute_file_digest(sample: Sample) -> str | None:
    """SHA-256 of the attachment's content; None without one.

    Raises:
        OSError: it cannot be read.
    """
    if sample.file is None:
        return None
    with sample.file.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _line(sample: Sample) -> bytes:
    fields = [sample.id, sample.question, sample.target, compute_file_digest(sample)]
    return json.dumps(fields).encode("ascii") + b"\n"  # escapes lone surrogates


def _of_lines(lines: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()
