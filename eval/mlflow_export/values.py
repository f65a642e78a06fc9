"""Ids in MLflow, derived from what the run's store calls a record: sending again meets the same rows.

trace_id(("9c1f", "q1", 1, 1))              # "tr-" and 32 hex digits
assessment_id(("9c1f", "q1", 1, 1), "correct")      # "a-" and 32 hex digits
"""

import hashlib
import json
import math
from typing import Any

from eval.runs.record import Record

ROOT = 0  # the question's own span in a trajectory
RecordKey = tuple[str, str, int, int]  # run id, sample id, epoch, attempt


def get_record_key(record: Record) -> RecordKey:
    return (record.run_id, record.sample_id, record.epoch, record.attempt)


def derive_trace_id(key: RecordKey) -> str:
    return f"tr-{_digest(*key)[:32]}"


def derive_span_id(key: RecordKey, number: int) -> str:
    """16 hex digits; `number` is the span's id in the record's trajectory."""
    return _digest(*key, "span", number)[:16]


def derive_assessment_id(key: RecordKey, name: str) -> str:
    return f"a-{_digest(*key, 'assessment', name)[:32]}"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


MAX_TEXT_CHARS = 20_000  # of one text inside a span; the run's records.jsonl has it whole
_INT64 = 2**63


def to_storable(value: Any) -> Any:
    """A copy; its structure stays whole, only texts are mended and cut."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): to_storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_storable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:  # OTLP has no larger integers
        return str(value)
    return value


def clean_text(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """One text, mended and cut."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    if "\x00" in text:
        text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[cut: the first {max_chars} of {len(text)} characters; records.jsonl has the whole]"


def truncate(text: str, max_chars: int) -> str:
    """At most so many characters, the mark of a cut included: for MLflow's columns of fixed width."""
    mended = clean_text(text, max_chars=max(len(text), 1))
    return mended if len(mended) <= max_chars else f"{mended[: max_chars - 1]}…"


def to_json_text(value: Any) -> str:
    """As MLflow keeps attributes of spans."""
    return json.dumps(to_storable(value), ensure_ascii=False)
