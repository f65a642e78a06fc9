"""What was thought of an answer, in MLflow's form: gold answer, verdict, diagnostics and error class.

[found.name for found in assessments(record, run_id, start_ns)]
# ["expected_response", "correct", "format_loss", "error_class"]
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlflow.entities import Assessment, AssessmentSource, Expectation, Feedback

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

GOLD, CORRECT, ERROR_CLASS = "expected_response", "correct", "error_class"
FORMAT_LOSS = "format_loss"
NO_ERROR = "none"


def build_assessments(record: Record, run_id: str, start_ns: int) -> Iterator[Assessment]:
    """The same names whatever the verdict: a new one replaces the old, MLflow would keep what is no longer sent.

    A question in error is not correct: so it counts in the accuracy.
    """
    making = _Making.of(record, run_id, start_ns)
    error = clean_text(record.error or "") or None
    if record.scored:
        yield making.gold(clean_text(record.target or ""))
        why = clean_text(record.explanation) or (f"error: {error}" if error else None)
        yield making.feedback(CORRECT, record.correct, why, _scorer(record))
    for name, value in record.parts.items():
        seen = value > 0 if name == FORMAT_LOSS else to_storable(value)
        yield making.feedback(_part_name(name), seen, None, _scorer(record))
    yield making.feedback(ERROR_CLASS, record.error_class or NO_ERROR, error, AssessmentSource("CODE", "harness"))


def list_assessment_names(record: Record) -> list[str]:
    """Those that `build_assessments` makes, for counting them."""
    return [*([GOLD, CORRECT] if record.scored else []), *map(_part_name, record.parts), ERROR_CLASS]


@dataclass(frozen=True)
class _Making:
    """What all assessments of one record share."""

    record: Record
    common: dict[str, Any]

    @classmethod
    def of(cls, record: Record, run_id: str, start_ns: int) -> "_Making":
        key = get_record_key(record)
        done_ms = start_ns // 1_000_000 + round(record.wall_seconds * 1000)
        common = {
            "trace_id": derive_trace_id(key),
            "span_id": derive_span_id(key, ROOT),
            "metadata": {"mlflow.assessment.sourceRunId": run_id},
            "create_time_ms": done_ms,
            "last_update_time_ms": done_ms,
        }
        return cls(record, common)

    def gold(self, target: str) -> Assessment:
        source = AssessmentSource("HUMAN", "dataset")
        return self._with_id(Expectation(GOLD, target, source=source, **self.common))

    def feedback(self, name: str, value: Any, rationale: str | None, source: AssessmentSource) -> Assessment:
        return self._with_id(Feedback(name, value, rationale=rationale, source=source, **self.common))

    def _with_id(self, assessment: Assessment) -> Assessment:
        assessment.assessment_id = derive_assessment_id(get_record_key(self.record), assessment.name)
        return assessment


def _part_name(name: str) -> str:
    """A scorer of the user's own may call a part as it likes."""
    taken = name in (GOLD, CORRECT, ERROR_CLASS)
    return truncate(f"part_{name}" if taken else name, 250)


def _scorer(record: Record) -> AssessmentSource:
    """A judge leaves a span of its own; a rule leaves none."""
    names = [step["name"] for step in record.trajectory if step["kind"] == "scorer"]
    return AssessmentSource("LLM_JUDGE", truncate(names[0], 250)) if names else AssessmentSource("CODE", "scorer")
