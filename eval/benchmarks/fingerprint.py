"""Fingerprints of samples: a sample is recognised under another id. A short question can be guessed and checked.

compute_fingerprint("What is  2 + 3?") == compute_fingerprint("what is 2 + 3?")      # True
compute_fingerprint("How many rows are there?", file_sha256="9f86d081…")   # another attachment: another question
"""

import json
from collections.abc import Iterable
from hashlib import file_digest, sha256

from eval.benchmarks.dataset import Sample, normalise_question

_CHARS = 16


def compute_fingerprint(text: str, file_sha256: str | None = None) -> str:
    """Return the beginning of a SHA-256 in hexadecimal digits; `file_sha256`: of the attachment, or None."""
    content = normalise_question(text) + (f"\n{file_sha256}" if file_sha256 else "")
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_CHARS]


def compute_dataset_digest(samples: Iterable[Sample], ordered: bool = True) -> str:
    """Return the SHA-256 of the samples, in their order or in any. OSError: an attachment cannot be read."""
    lines = map(_write_line, samples)
    return sha256(b"".join(lines if ordered else sorted(lines))).hexdigest()


def compute_file_digest(sample: Sample) -> str | None:
    """Return the SHA-256 of the attachment's content; None without one. OSError: it cannot be read."""
    if sample.file is None:
        return None
    with sample.file.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _write_line(sample: Sample) -> bytes:
    inputs = [dict(sample.inputs)] if sample.inputs else []
    fields = [sample.id, sample.question, sample.target, compute_file_digest(sample), *inputs]
    return json.dumps(fields).encode("ascii") + b"\n"  # escapes lone surrogates
