"""Filters and order of a list of runs, from words of the command line.

selection = Selection.read(["model=gpt-4o", "since=7d", "sort=score", "night"])
selection.select(found.runs)        # runs with gpt-4o of the last seven days whose line has "night", the best first
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Self

from eval.analysis.run_list.read_runs import EVALUATION, STATES, TUNING, RunEntry
from mas.runtime.errors import UserError

FIELDS = ("system", "model", "data", "prompts", "state", "kind", "name")
SINCE, OLDER, SORT = "since", "older", "sort"
ORDERS = ("date", "score", "cost", "size", "time", "name")
_CHOICES = {"state": STATES, "kind": (EVALUATION, TUNING)}
_AGE = re.compile(r"(\d{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_HELP = f"{', '.join(f'{each}=' for each in (*FIELDS, SINCE, OLDER, SORT))}"


@dataclass(frozen=True)
class Selection:
    """Conditions that all must hold; `fields` has the accepted patterns of each."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    since: datetime | None = None
    before: datetime | None = None
    order: str = "date"

    @property
    def is_empty(self) -> bool:
        return not (self.fields or self.words or self.since or self.before)

    @classmethod
    def read(cls, words: Iterable[str], now: datetime | None = None) -> Self:
        """Read `name=value` words and others, which are looked for in all texts of a run.

        Raises:
            UserError: there is no such filter, or it does not take that value.
        """
        now = now or datetime.now(UTC)
        fields: dict[str, list[str]] = {}
        texts, times, order = [], {}, "date"
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                texts.append(word.casefold())
            elif name in FIELDS:
                fields[name] = _read_values(name, value)
            elif name in (SINCE, OLDER):
                times[name] = _read_moment(name, value, now)
            elif name == SORT and value in ORDERS:
                order = value
            elif name == SORT:
                raise UserError(f"sort={value} is no order of runs; choose one of: {', '.join(ORDERS)}.")
            else:
                raise UserError(f"{name}= is no filter of runs; choose one of: {_HELP}.")
        return cls(fields, texts, times.get(SINCE), times.get(OLDER), order)

    def select(self, runs: Iterable[RunEntry]) -> list[RunEntry]:
        """Return the runs for which all conditions hold, in order; what has no value comes last."""
        found = [run for run in runs if self._fits(run)]
        if self.order == "name":
            return sorted(found, key=lambda run: run.name)
        return sorted(found, key=lambda run: _rank(run, self.order), reverse=True)

    def _fits(self, run: RunEntry) -> bool:
        started = parse_time(run.started_at)
        if self.since and (started is None or started < self.since):
            return False
        if self.before and (started is None or started >= self.before):
            return False
        if not all(_matches(getattr(run, name), patterns) for name, patterns in self.fields.items()):
            return False
        text = "\n".join((run.name, run.system, run.model, run.data, run.prompts, run.reason, run.run_id)).casefold()
        return all(word in text for word in self.words)


def parse_time(moment: str) -> datetime | None:
    """Return a moment in ISO 8601; None if the text is none. Without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _read_values(name: str, value: str) -> list[str]:
    values = [each.strip() for each in value.strip("[]").split(",") if each.strip()]
    choices = _CHOICES.get(name)
    wrong = [each for each in values if choices and each not in choices]
    if wrong or not values:
        expected = f"choose of: {', '.join(choices)}" if choices else "give a name, or a pattern such as gpt-*"
        raise UserError(f"{name}={value} fits no run; {expected}.")
    return values


def _read_moment(name: str, value: str, now: datetime) -> datetime:
    try:
        if age := _AGE.fullmatch(value):
            return now - timedelta(hours=int(age[1]) * _HOURS[age[2]])
    except OverflowError:
        pass
    else:
        if moment := parse_time(value):
            return moment
    raise UserError(f"{name}={value} is no time; give a date such as 2026-11-01, or an age such as 12h, 7d or 4w.")


def _matches(value: str, patterns: Sequence[str]) -> bool:
    """Return whether a text is one of the names, or fits one of the patterns; `data/split` fits its `data` too."""
    texts = (value.casefold(), value.casefold().partition("/")[0])
    return any(fnmatchcase(text, each.casefold()) for each in patterns for text in texts)


def _rank(run: RunEntry, order: str) -> float:
    started = parse_time(run.started_at)
    date = started.timestamp() if started else None
    values = {"date": date, "score": run.score, "cost": run.cost_usd, "size": run.size_bytes, "time": run.seconds}
    value = values[order]
    return -1.0 if value is None else value
