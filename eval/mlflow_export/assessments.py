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
NO_ERROR = "none"


def build_assessments(record: Record, run_id: str, start_ns: int) -> Iterator[Assessment]:
    """Build the assessments of a record; `run_id` is MLflow's.

    They have the same names whatever the verdict: a new one replaces the old, but MLflow would keep one that is no
    longer sent. A question in error is not correct, as in the accuracy.
    """
    key = get_record_key(record)
    done_ms = start_ns // 1_000_000 + round(record.wall_seconds * 1000)
    for assessment in list_assessments(record):
        assessment.assessment_id = derive_assessment_id(key, assessment.name)
        assessment.trace_id, assessment.span_id = derive_trace_id(key), derive_span_id(key, ROOT)
        assessment.run_id, assessment.metadata = run_id, {"mlflow.assessment.sourceRunId": run_id}
        assessment.create_time_ms = assessment.last_update_time_ms = done_ms
        yield assessment


def list_assessments(record: Record) -> Iterator[Assessment]:
    """Yield the assessments without ids and times."""
    error, scorer = clean_text(record.error or "") or None, _scorer(record)
    if record.scored:
        yield Expectation(GOLD, clean_text(record.target or ""), source=AssessmentSource("HUMAN", "dataset"))
        why = clean_text(record.explanation) or (f"error: {error}" if error else None)
        yield Feedback(CORRECT, record.correct, rationale=why, source=scorer)
    for name, value in record.parts.items():
        yield Feedback(_part_name(name), value == 0 if name == FORMAT_LOSS else to_storable(value), source=scorer)
    judged = {step["name"] for step in record.trajectory if step["kind"] == "scorer"}
    for extra, found in record.extra_scores.items():
        kind = "LLM_JUDGE" if f"{EXTRA}{extra}" in judged else "CODE"
        source = AssessmentSource(kind, truncate(extra, 250))
        why = clean_text(found.error or found.explanation) or None
        name = truncate(f"extra_{extra}", 250)
        yield Feedback(name, to_storable(read_value(found.value)), rationale=why, source=source)
    for verdict in record.human:
        text = f"corrected to {verdict.target}" if verdict.target is not None else ""
        why = clean_text(": ".join(filter(None, (text, verdict.note)))) or None
        source = AssessmentSource("HUMAN", truncate(verdict.who or "unknown", 250))
        name = HUMAN_QUESTION if verdict.is_of_question else HUMAN_ANSWER
        yield Feedback(name, verdict.label.replace("_", " "), rationale=why, source=source)
    harness = AssessmentSource("CODE", "harness")
    yield Feedback(ERROR_CLASS, record.error_class or NO_ERROR, rationale=error, source=harness)


def _part_name(name: str) -> str:
    """Return the name of a part's assessment; a scorer of the user's own may call a part as it likes."""
    if name == FORMAT_LOSS:
        return FORMAT_OK
    taken = name in (GOLD, CORRECT, ERROR_CLASS, FORMAT_OK)
    return truncate(f"part_{name}" if taken else name, 250)


def _scorer(record: Record) -> AssessmentSource:
    """Return the source of the verdict: a judge leaves a span of its own, a rule leaves none."""
    scorers = [step["name"] for step in record.trajectory if step["kind"] == "scorer"]
    names = [name for name in scorers if not name.startswith(EXTRA)]
    return AssessmentSource("LLM_JUDGE", truncate(names[0], 250)) if names else AssessmentSource("CODE", "scorer")
