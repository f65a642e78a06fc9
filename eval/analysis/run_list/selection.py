"""Filters and order of a list of runs, from words of the command line.

selection = Selection.read(["model=gpt-4o", "since=7d", "sort=score", "night"])
selection.select(found.runs)        # runs with gpt-4o of the last seven days whose line has "night", the best first
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Self

from eval.analysis.run_list.read_runs import RunEntry
from mas.runtime.errors import UserError

FIELDS = ("system", "model", "data", "prompts", "state", "kind", "name")
SINCE, SORT = "since", "sort"
ORDERS = {"date": "started_at", "score": "score", "cost": "cost_usd", "size": "size_bytes", "time": "seconds"}
_AGE = re.compile(r"(\d{1,4})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Selection:
    """Conditions that all must hold; `fields` has the accepted patterns of each."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    since: datetime | None = None
    order: str = "date"

    @classmethod
    def read(cls, words: Iterable[str]) -> Self:
        """Read `name=value` words and others, which are looked for in all texts of a run.

        Raises:
            UserError: there is no such filter, or it does not take that value.
        """
        given = [word.partition("=") for word in words]
        named = {name: value for name, equals, value in given if equals}
        if unknown := next((name for name in named if name not in (*FIELDS, SINCE, SORT)), None):
            choices = ", ".join(f"{each}=" for each in (*FIELDS, SINCE, SORT))
            raise UserError(f"{unknown}= is no filter of runs; choose one of: {choices}.")
        if (order := named.get(SORT, "date")) not in ORDERS:
            raise UserError(f"sort={order} is no order of runs; choose one of: {', '.join(ORDERS)}.")
        return cls(
            fields={name: named[name].casefold().split(",") for name in FIELDS if name in named},
            words=[word.casefold() for word, equals, _ in given if not equals],
            since=_read_moment(named[SINCE]) if SINCE in named else None,
            order=order,
        )

    def select(self, runs: Iterable[RunEntry]) -> list[RunEntry]:
        """Return the runs for which all conditions hold, in order; what has no value comes last."""

        def rank(run: RunEntry) -> tuple[bool, Any]:
            value = getattr(run, ORDERS[self.order])
            return (False, 0) if value in (None, "") else (True, value)

        return sorted(filter(self._fits, runs), key=rank, reverse=True)

    def _fits(self, run: RunEntry) -> bool:
        if self.since and ((started := parse_time(run.started_at)) is None or started < self.since):
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


def _read_moment(value: str) -> datetime:
    if age := _AGE.fullmatch(value):
        return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
    if moment := parse_time(value):
        return moment
    raise UserError(f"since={value} is no time; give a date such as 2026-11-01, or an age such as 12h, 7d or 4w.")


def _matches(value: str, patterns: Sequence[str]) -> bool:
    """Return whether a text is one of the names, or fits one of the patterns; `data/split` fits its `data` too."""
    texts = (value.casefold(), value.casefold().partition("/")[0])
    return any(fnmatchcase(text, each) for each in patterns for text in texts)
