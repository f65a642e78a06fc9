"""Trace events: their fields, their secrets, and the spans that show them too."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from mas.runtime.trace import Trace, record_trace, span
from mas.systems.bos.contracts.events import EventRecorder, TraceEvent, TraceEventType

TOKEN = "tok-1234567890abcdef"


def test_e01_e02_fields_of_an_event() -> None:
    before = datetime.now(UTC)
    event = TraceEvent(event_type=TraceEventType.DECISION, agent="planner")
    assert before <= event.timestamp <= datetime.now(UTC) and event.timestamp.utcoffset() is not None
    assert (event.data, event.message) == ({}, None)
    assert {str(kind) for kind in TraceEventType} == {"MESSAGE", "TOOL", "DECISION", "RESULT", "ERROR"}
    assert TraceEvent(event_type=TraceEventType.RESULT, agent="composer").agent == "composer"
    for wrong in ({"agent": "nobody"}, {"event_type": "NOTE"}):
        with pytest.raises(ValidationError):
            TraceEvent.model_validate({"event_type": "TOOL", **wrong})


def test_e07_an_event_is_on_the_span_with_its_id_and_survives_json() -> None:
    trace = Trace("thread")
    with record_trace(trace), span("agent", "sql"):
        recorder = EventRecorder("sql")
        added = recorder.add("TOOL", "Executed query", query="SELECT 1", row_count=1, odd=object)
    assert TraceEvent.model_validate_json(added.model_dump_json()) == added == recorder.events[0]
    (noted,) = trace.spans[0].events
    assert (noted["name"], noted["event_id"], noted["event_type"]) == ("Executed query", added.event_id, "TOOL")
    assert noted["data"]["query"] == "SELECT 1"


def test_an_event_shows_no_secret_of_the_request() -> None:
    trace = Trace("thread")
    recorder = EventRecorder("api_docs", {"api_headers": {"Authorization": f"Bearer {TOKEN}"}})
    with record_trace(trace), span("agent", "api_docs"):
        added = recorder.add("ERROR", f"refused {TOKEN}", body=[f"x {TOKEN}"], url=f"http://h/?t={TOKEN}")
    assert TOKEN not in added.model_dump_json() and TOKEN not in str(trace.spans[0].events)
    assert added.message == "refused ***"


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TraceEvent(event_type=TraceEventType.TOOL).message = "other"  # type: ignore[misc]


def test_secrets_of_the_context_and_those_hidden_later_are_masked() -> None:
    recorder = EventRecorder("sql", {"token": TOKEN})
    recorder.hide("a-new-token-1234")
    added = recorder.add("ERROR", f"{TOKEN} and a-new-token-1234", sent=[TOKEN, "a-new-token-1234", "open"])
    assert (added.message, added.data) == ("*** and ***", {"sent": ["***", "***", "open"]})
    assert (added.event_type, added.agent, recorder.events) == (TraceEventType.ERROR, "sql", [added])


@pytest.mark.parametrize("kind", list(TraceEventType))
def test_only_an_error_is_a_warning_on_the_span(kind: TraceEventType) -> None:
    trace = Trace("thread")
    with record_trace(trace), span("agent", "sql"):
        added = EventRecorder("sql").add(kind, "Said", n=1)
    (noted,) = trace.spans[0].events
    assert (noted["name"], noted["level"]) == ("Said", "warning" if kind == "ERROR" else "info")
    assert added.event_id in str(noted)
