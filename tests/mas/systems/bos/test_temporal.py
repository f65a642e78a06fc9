"""Date and time in the context."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.systems.bos.contracts import AgentRequest, attach_temporal_context
from tests.mas.systems.bos.building import NOW


def attach(**context: object) -> dict[str, object]:
    return attach_temporal_context(AgentRequest(question="q", context=context), lambda: NOW).context


def test_t01_t02_what_is_missing_is_added() -> None:
    assert attach() == {
        "current_datetime_utc": "2026-11-22T23:59:59+00:00",
        "current_date": "2026-11-22",
        "current_date_start_hour": "2026-11-22 00",
        "current_date_end_hour": "2026-11-22 23",
    }
    assert attach(current_date_start_hour="2026-11-22 08")["current_date_start_hour"] == "2026-11-22 08"


def test_t03_t04_what_is_given_is_kept() -> None:
    assert attach(current_date="2020-02-02") == {"current_datetime_utc": NOW.isoformat(), "current_date": "2020-02-02"}
    assert attach(current_datetime_utc="then")["current_datetime_utc"] == "then"


def test_t05_nothing_missing_is_the_very_same_request() -> None:
    request = AgentRequest(question="q", context={"current_datetime_utc": "then", "current_date": "2020-02-02"})
    assert attach_temporal_context(request) is request


def test_t06_the_callers_request_does_not_change() -> None:
    inner: dict[str, object] = {"n": 1}
    context: dict[str, object] = {"inner": inner}
    request = AgentRequest(question="q", context=context)
    enriched = attach_temporal_context(request, lambda: NOW)
    assert enriched is not request and "current_date" not in request.context and context == {"inner": {"n": 1}}
    assert enriched.context["inner"] is request.context["inner"]
    with pytest.raises(ValidationError, match="frozen"):
        request.question = "another"  # type: ignore[misc]


def test_t07_one_reading_of_the_clock_in_utc() -> None:
    readings = [datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)]
    enriched = attach_temporal_context(AgentRequest(question="q"), lambda: readings.pop(0)).context
    assert str(enriched["current_datetime_utc"]).startswith(str(enriched["current_date"])) and len(readings) == 1
    context = SampleContext(SampleKey("q"))
    with use_context(context):
        began = attach_temporal_context(AgentRequest(question="q")).context["current_datetime_utc"]
    assert began == context.read_start_time().isoformat()
    now = attach_temporal_context(AgentRequest(question="q")).context["current_datetime_utc"]
    assert (
        str(now).endswith("+00:00") and abs((datetime.fromisoformat(str(now)) - datetime.now(UTC)).total_seconds()) < 60
    )
