"""Filters and order of a list of runs."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from eval.analysis.run_list.read_runs import RunEntry
from eval.analysis.run_list.selection import Selection
from mas.runtime.errors import UserError

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def entry(name: str, day: int = 21, **facts: object) -> RunEntry:
    known = {"kind": "evaluation", "state": "complete", "model": "gpt-4o", "data": "gaia/validation", **facts}
    return RunEntry(folder=Path("/runs") / name, started_at=f"2026-11-{day:02}T10:00:00+00:00", **known)  # type: ignore[arg-type]


RUNS = [
    entry("night", score=0.5, cost_usd=2.0, size_bytes=5),
    entry("day", day=10, model="gpt-4o-mini", score=0.7, size_bytes=9, reason="Budget used up"),
    entry("tuned", day=22, kind="tuning", state="crashed", model="Llama", data="toy", cost_usd=3.0),
]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["tuned", "night", "day"]),
        (["model=gpt-4o"], ["night"]),
        (["model=gpt-*"], ["night", "day"]),
        (["model=llama"], ["tuned"]),
        (["data=gaia"], ["night", "day"]),
        (["state=crashed,stopped"], ["tuned"]),
        (["kind=evaluation", "since=3d"], ["night"]),
        (["older=2026-11-20"], ["day"]),
        (["budget"], ["day"]),
        (["name=*t"], ["night"]),
        (["sort=score"], ["day", "night", "tuned"]),
        (["sort=cost"], ["tuned", "night", "day"]),
        (["sort=size"], ["day", "night", "tuned"]),
        (["sort=name"], ["day", "night", "tuned"]),
    ],
)
def test_runs_are_selected_and_ordered(words: list[str], names: list[str]) -> None:
    by_date = sorted(RUNS, key=lambda run: run.started_at, reverse=True)
    assert [run.name for run in Selection.read(words, NOW).select(by_date)] == names


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("modle=a", "modle= is no filter of runs; choose one of: system="),
        ("state=dead", "state=dead fits no run; choose of: complete, stopped"),
        ("since=yesterday", "since=yesterday is no time; give a date such as 2026-11-01, or an age"),
        ("older=999999w", "older=999999w is no time"),
        ("sort=luck", "sort=luck is no order of runs; choose one of: date, score"),
        ("model=", "model= fits no run; give a name"),
    ],
)
def test_a_mistake_is_named(word: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence.replace("*", r"\*")):
        Selection.read([word], NOW)
