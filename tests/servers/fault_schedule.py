"""Which request gets which fault: in turn, every so often, or by a text in the request.

["429", "ok", "ok", "hang"]                   the first four requests in turn; "ok" from then on
{"every": 3, "fault": "500"}                  the third, the sixth, …; {"every": 1, …} never ends
{"text": "question 7", "faults": ["reset"]}   only requests whose messages hold the text; they are counted apart
{"text": "question 7", "every": 1, "fault": "401"}
{"first_of": [{"text": "a", …}, {"text": "b", …}]}     the first of them that has a fault for the request

schedule = read_schedule(["429"])
schedule.fault("What is 2 + 2?"), schedule.fault("What is 2 + 2?")      # "429", "ok"
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

OK = "ok"
FORMS = (
    'a list of faults, {"every": n, "fault": name}, {"faults": [...]}, each with an optional "text", or '
    '{"first_of": [...]}'
)


class ScheduleError(ValueError):
    """The schedule is of none of the forms, or names a fault that there is not."""


@dataclass
class Rule:
    """One schedule with a count of its own."""

    faults: tuple[str, ...] = ()  # in turn
    every: int = 0  # 0: no fault after those in turn
    fault_then: str = OK
    text: str = ""  # only requests that hold it
    asked: int = 0

    def fault(self, text: str) -> str:
        if self.text not in text:
            return OK
        self.asked += 1
        if self.asked <= len(self.faults):
            return self.faults[self.asked - 1]
        return self.fault_then if self.every and self.asked % self.every == 0 else OK


@dataclass
class Schedule:
    rules: list[Rule] = field(default_factory=list)

    def fault(self, text: str) -> str:
        """The fault for the next request, whose messages hold `text`; "ok" for none."""
        return next((fault for rule in self.rules if (fault := rule.fault(text)) != OK), OK)


def read_schedule(value: Any, known: Collection[str] = ()) -> Schedule:
    """A schedule from its JSON form; `known` are the names of the faults, none: any.

    Raises:
        ScheduleError: it cannot be one.
    """
    alternatives = value["first_of"] if isinstance(value, dict) and set(value) == {"first_of"} else [value]
    if not isinstance(alternatives, list):
        raise ScheduleError(f"first_of is {alternatives!r}; expected a list")
    schedule = Schedule([_rule(each) for each in alternatives])
    named = {name for rule in schedule.rules for name in (*rule.faults, rule.fault_then)}
    if known and (unknown := sorted(named - {OK, *known})):
        raise ScheduleError(f"there is no fault {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
    return schedule


def _rule(value: Any) -> Rule:
    given = {"faults": value} if isinstance(value, list) else value
    if not isinstance(given, dict) or not {"faults", "every"} & set(given) or set(given) - set(_KEYS):
        raise ScheduleError(f"{value!r} is no schedule; expected {FORMS}")
    faults, every, then, text = (given.get(key, _KEYS[key]) for key in _KEYS)
    if not isinstance(faults, list) or not all(isinstance(each, str) for each in [*faults, then, text]):
        raise ScheduleError(f"{value!r} is no schedule: faults and texts are strings")
    if not isinstance(every, int) or every < 0 or (every and "fault" not in given):
        raise ScheduleError(f"{value!r} is no schedule: every is 1 or more and comes with a fault")
    return Rule(tuple(faults), every, then, text)


_KEYS: dict[str, Any] = {"faults": [], "every": 0, "fault": OK, "text": ""}
