"""Date and time of a request, for the agents.

attach_temporal_context(AgentRequest(question="Orders of today?")).context
# {"current_datetime_utc": "2026-11-22T09:30:00+00:00", "current_date": "2026-11-22",
#  "current_date_start_hour": "2026-11-22 00", "current_date_end_hour": "2026-11-22 23"}
"""

from collections.abc import Callable
from datetime import UTC, datetime

from mas.runtime.sample_context import current_context
from mas.systems.bos.contracts.request import AgentRequest

Clock = Callable[[], datetime]  # in UTC


def read_clock() -> datetime:
    """Return the time; within a sample that of its beginning, also when it continues after an interruption."""
    context = current_context()
    return context.read_start_time() if context else datetime.now(UTC)


def attach_temporal_context(request: AgentRequest, clock: Clock = read_clock) -> AgentRequest:
    """Return a request whose context has the date and time; the very same one if nothing is missing."""
    context = dict(request.context)
    now = clock()  # read once: two readings could lie on two days
    context.setdefault("current_datetime_utc", now.isoformat())
    if "current_date" not in context:
        date = now.date().isoformat()
        context["current_date"] = date
        context.setdefault("current_date_start_hour", f"{date} 00")
        context.setdefault("current_date_end_hour", f"{date} 23")
    return request if context == request.context else request.model_copy(update={"context": context})
