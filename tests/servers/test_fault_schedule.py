"""Each form of a schedule, and what is refused as one."""

import re
from typing import Any

import pytest

from tests.servers.fault_replies import FAULTS
from tests.servers.fault_schedule import ScheduleError, read_schedule

A, B = "the question is A", "the question is B"


@pytest.mark.parametrize(
    ("form", "asked", "served"),
    [
        ([], [A, B], ["ok", "ok"]),
        (["429", "ok", "hang"], [A, A, B, A], ["429", "ok", "hang", "ok"]),
        ({"every": 2, "fault": "500"}, [A, B, A, B], ["ok", "500", "ok", "500"]),
        ({"faults": ["429"], "every": 2, "fault": "500"}, [A, A, A, A], ["429", "500", "ok", "500"]),
        ({"text": "is B", "faults": ["cut"]}, [A, B, A, B], ["ok", "cut", "ok", "ok"]),
        (
            {"first_of": [{"text": "is A", "faults": ["ok", "cut"]}, {"every": 1, "fault": "401"}]},
            [A, A, B],
            ["401", "cut", "401"],
        ),
    ],
)
def test_requests_get_their_faults(form: Any, asked: list[str], served: list[str]) -> None:
    schedule = read_schedule(form, FAULTS)
    assert [schedule.fault(text) for text in asked] == served


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (["4299"], "there is no fault 4299; there are: 400, "),
        ("429", "'429' is no schedule; expected a list of faults"),
        ({"fault": "429"}, "expected a list of faults"),
        ({"evry": 1, "fault": "429"}, "expected a list of faults"),
        ({"every": 2}, "every is 1 or more and comes with a fault"),
        ({"every": -1, "fault": "429"}, "every is 1 or more"),
        ([429], "faults and texts are strings"),
        ({"first_of": "429"}, "expected a list"),
    ],
)
def test_what_is_no_schedule_is_refused_with_what_is_wrong(form: Any, message: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(message)):
        read_schedule(form, FAULTS)
