"""Cause of a lost point, as the report names it."""

from dataclasses import dataclass

from eval.runs.record import NOT_RUN, Record


@dataclass(frozen=True, slots=True)
class Cause:
    kind: str  # agent, tool, limit, format, error, answer
    name: str
    evidence: str = ""


def find_cause(record: Record) -> Cause | None:
    """Return why an answer lost its point; None if it lost none, or has no target and no error."""
    if record.error is not None:
        name = "not run" if record.error_class == NOT_RUN else f"error {record.error_class or 'unknown'}"
        return Cause("error", name)
    if not record.scored or record.correct:
        return None
    if record.limit:
        return Cause("limit", f"limit {record.limit}")
    return Cause("answer", "wrong answer")
