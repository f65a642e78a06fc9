"""Ids in MLflow, derived from what the run's store calls a record: sending again meets the same rows.

trace_id(("9c1f", "q1", 1, 1))              # "tr-" and 32 hex digits
assessment_id(("9c1f", "q1", 1, 1), "correct")      # "a-" and 32 hex digits
"""

import hashlib

from eval.record import Record

ROOT = 0  # the question's own span in a trajectory
RecordKey = tuple[str, str, int, int]  # run id, example id, epoch, attempt


def key_of(record: Record) -> RecordKey:
    return (record.run_id, record.example_id, record.epoch, record.attempt)


def trace_id(key: RecordKey) -> str:
    return f"tr-{_digest(*key)[:32]}"


def span_id(key: RecordKey, number: int) -> str:
    """16 hex digits; `number` is the span's id in the record's trajectory."""
    return _digest(*key, "span", number)[:16]


def assessment_id(key: RecordKey, name: str) -> str:
    return f"a-{_digest(*key, 'assessment', name)[:32]}"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
