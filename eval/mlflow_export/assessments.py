"""The assessments of an answer in MLflow's form: target, verdict, diagnostics and error class.

[found.name for found in build_assessments(record, run_id, start_ns)]
# ["expected_response", "correct", "format_ok", "error_class"]
"""

from collections.abc import Iterator

from mlflow.entities import Assessment, AssessmentSource, Expectation, Feedback

from eval.execution.scoring import EXTRA
from eval.mlflow_export.values import (
    ROOT,
    clean_text,
    derive_assessment_id,
    derive_span_id,
    derive_trace_id,
    get_record_key,
    to_storable,
    truncate,
)
from eval.runs.record import Record
from eval.scorers.score import read_value

GOLD, CORRECT, ERROR_CLASS = "expected_response", "correct", "error_class"
HUMAN_ANSWER, HUMAN_QUESTION = "human_review", "human_review_question"
FORMAT_LOSS, FORMAT_OK = "format_loss", "format_ok"  # a part, and what MLflow shows: its pages paint False red
_MAX_CHARS = 250  # of names


def build_assessments(record: Record, run_id: str, start_ns: int) -> Iterator[Assessment]:
    """Build the assessments of a record; `run_id` is MLflow's.

    They have the same names whatever the verdict: a new one replaces the old, but MLflow would keep one that is no
    longer sent. A question in error is not correct, as in the accuracy.
    """
    key = get_record_key(record)
    done_ms = start_ns // 1_000_000 + round(record.wall_seconds * 1000)
    for assessment in _list_assessments(record):
        assessment.assessment_id = derive_assessment_id(key, assessment.name)
        assessment.trace_id, assessment.span_id = derive_trace_id(key), derive_span_id(key, ROOT)
        assessment.run_id, assessment.metadata = run_id, {"mlflow.assessment.sourceRunId": run_id}
        assessment.create_time_ms = assessment.last_update_time_ms = done_ms
        yield assessment


def _list_assessments(record: Record) -> Iterator[Assessment]:
    """Yield the assessments without ids and times. A judge leaves a span of its own, a rule leaves none."""
    error = clean_text(record.error or "") or None
    judges = [step["name"] for step in record.trajectory if step["kind"] == "scorer"]
    judge = next((name for name in judges if not name.startswith(EXTRA)), None)
    scorer = AssessmentSource("LLM_JUDGE", truncate(judge, _MAX_CHARS)) if judge else AssessmentSource("CODE", "scorer")
    if record.scored:
        yield Expectation(GOLD, clean_text(record.target or ""), source=AssessmentSource("HUMAN", "dataset"))
        why = clean_text(record.explanation) or (f"error: {error}" if error else None)
        yield Feedback(CORRECT, record.correct, rationale=why, source=scorer)
    for part, value in record.parts.items():
        taken = part in (GOLD, CORRECT, ERROR_CLASS, FORMAT_OK)  # by a scorer of the user's own
        name = FORMAT_OK if part == FORMAT_LOSS else truncate(f"part_{part}" if taken else part, _MAX_CHARS)
        yield Feedback(name, value == 0 if part == FORMAT_LOSS else to_storable(value), source=scorer)
    for extra, found in record.extra_scores.items():
        kind = "LLM_JUDGE" if f"{EXTRA}{extra}" in judges else "CODE"
        why = clean_text(found.error or found.explanation) or None
        source, name = AssessmentSource(kind, truncate(extra, _MAX_CHARS)), truncate(f"extra_{extra}", _MAX_CHARS)
        yield Feedback(name, to_storable(read_value(found.value)), rationale=why, source=source)
    for verdict in record.human:
        text = f"corrected to {verdict.target}" if verdict.target is not None else ""
        why = clean_text(": ".join(filter(None, (text, verdict.note)))) or None
        source = AssessmentSource("HUMAN", truncate(verdict.who or "unknown", _MAX_CHARS))
        name = HUMAN_QUESTION if verdict.is_of_question else HUMAN_ANSWER
        yield Feedback(name, verdict.label.replace("_", " "), rationale=why, source=source)
    harness = AssessmentSource("CODE", "harness")
    yield Feedback(ERROR_CLASS, record.error_class or "none", rationale=error, source=harness)
