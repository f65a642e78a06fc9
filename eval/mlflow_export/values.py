"""Ids and texts of what is sent to MLflow. Ids are derived from a record's key: sending again meets the same rows.

derive_trace_id(("9c1f", "q1", 1, 1))              # "tr-" and 32 hex digits
derive_assessment_id(("9c1f", "q1", 1, 1), "correct")      # "a-" and 32 hex digits
"""

import hashlib
import json
import math
import re

from eval.runs.record import Record

ROOT = 0  # the question's own span in a trajectory
RecordKey = tuple[str, str, int, int]  # run id, sample id, epoch, attempt


def get_record_key(record: Record) -> RecordKey:
    return (record.run_id, record.sample_id, record.epoch, record.attempt)


def derive_trace_id(key: RecordKey) -> str:
    return f"tr-{_digest(*key)[:32]}"


def derive_span_id(key: RecordKey, number: int) -> str:
    """Return 16 hex digits; `number` is the span's id in the record's trajectory."""
    return _digest(*key, "span", number)[:16]


def derive_assessment_id(key: RecordKey, name: str) -> str:
    return f"a-{_digest(*key, 'assessment', name)[:32]}"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


# MLflow's pages render texts as Markdown, and descriptions as HTML too: a picture would be loaded from its host, which
# then knows who reads the answer. An invisible character (zero width space) makes it a link, or plain text.
_PICTURE = re.compile(
    r"(?:!|\\u0021)(?=\[|\\u005b)|<(?=/?(?:img|image|picture|source|svg|video|audio|iframe|object|embed|link|style)\b)",
    re.IGNORECASE,
)
_PICTURE_PARTS = ("image", "image_url", "input_image")  # types of parts of a message
MAX_TEXT_CHARS = 20_000  # of one text inside a span; the run's records.jsonl has it whole
_INT64 = 2**63


def to_storable(value: object) -> object:
    """Return a copy that MLflow can store: the same structure, with texts repaired and cut."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        stored = {clean_text(str(key)): to_storable(item) for key, item in value.items()}
        return stored | {"type": f"{stored['type']} (not shown)"} if stored.get("type") in _PICTURE_PARTS else stored
    if isinstance(value, list | tuple):
        return [to_storable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:  # OTLP has no larger integers
        return str(value)
    return value


def clean_text(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Replace characters that no database stores, break pictures that a page would load, and cut the text."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    if "\x00" in text:
        text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    if len(text) <= max_chars:
        return break_pictures(text)
    kept = break_pictures(text[:max_chars])
    return f"{kept}\n[cut: the first {max_chars} of {len(text)} characters; records.jsonl has the whole]"


def break_pictures(text: str) -> str:
    """Return the text so that MLflow's pages load no picture for it."""
    return _PICTURE.sub("\\g<0>\u200b", text)


def truncate(text: str, max_chars: int) -> str:
    """Cut the text to a column of fixed width, the mark of the cut included."""
    cleaned = clean_text(text, max_chars=max(len(text), 1))
    return cleaned if len(cleaned) <= max_chars else f"{cleaned[: max_chars - 1]}…"


def to_json_text(value: object) -> str:
    """Return the value as MLflow keeps attributes of spans."""
    return json.dumps(to_storable(value), ensure_ascii=False)
