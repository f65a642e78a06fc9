"""Filters and order of a list of runs."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from eval.analysis.run_list.read_runs import RunEntry
from eval.analysis.run_list.selection import Selection, parse_time
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


def test_since_holds_its_moment_and_older_does_not() -> None:
    run, unknown = entry("night", day=21), RunEntry(folder=Path("/runs/x"), kind="evaluation", started_at="")
    for words, expected in (
        (["since=2026-11-21T10:00:00"], ["night"]),
        (["since=2026-11-21T10:00:01"], []),
        (["since=26h"], ["night"]),
        (["since=25h"], []),
        (["older=2026-11-21T10:00:00"], []),
        (["older=2026-11-21T10:00:01"], ["night"]),
        (["older=26h"], []),
        (["older=1d"], ["night"]),
        (["since=1w"], ["night"]),
        (["sort=date"], ["night", "x"]),
    ):
        assert [each.name for each in Selection.read(words, NOW).select([unknown, run])] == expected, words


def test_a_selection_is_empty_without_any_condition_whatever_its_order() -> None:
    assert [Selection.read(words, NOW).is_empty for words in ([], ["sort=name"])] == [True, True]
    assert not any(Selection.read([word], NOW).is_empty for word in ("night", "model=a", "since=1d", "older=1d"))


def test_all_conditions_must_hold_and_names_are_found_in_any_case() -> None:
    assert [run.name for run in Selection.read(["NIGHT", "model=gpt-4o", "Gaia"], NOW).select(RUNS)] == ["night"]
    assert Selection.read(["night", "budget"], NOW).select(RUNS) == []
    assert Selection.read(["model=gpt-4o", "kind=tuning"], NOW).select(RUNS) == []
    assert [run.name for run in Selection.read(["model=[gpt-4o, llama]"], NOW).select(RUNS)] == ["tuned", "night"]


def test_what_has_no_value_comes_last_in_every_order() -> None:
    bare = RunEntry(folder=Path("/runs/bare"), kind="evaluation")
    nothing = entry("nothing", score=0.0, cost_usd=0.0, seconds=0.0, size_bytes=0)
    some = entry("some", day=20, score=0.25, cost_usd=0.5, seconds=0.5, size_bytes=1)
    for order, names in (
        ("score", ["some", "nothing", "bare"]),
        ("cost", ["some", "nothing", "bare"]),
        ("date", ["nothing", "some", "bare"]),
        ("time", ["some", "bare", "nothing"]),  # as they were
        ("size", ["some", "bare", "nothing"]),
        ("name", ["bare", "nothing", "some"]),
    ):
        found = Selection.read([f"sort={order}"], NOW).select([bare, nothing, some])
        assert [run.name for run in found] == names, order


def test_words_are_read_whole() -> None:
    words = ["state=[complete, crashed]", "kind=tuning", "since=2w", "older=2026-11-21", "sort=cost", "Night", "a b"]
    assert Selection.read(words, NOW) == Selection(
        fields={"state": ["complete", "crashed"], "kind": ["tuning"]},
        words=["night", "a b"],
        since=datetime(2026, 11, 8, 12, tzinfo=UTC),
        before=datetime(2026, 11, 21, tzinfo=UTC),
        order="cost",
    )
    assert Selection.read([], NOW) == Selection({}, [], None, None, "date")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T10:00:00", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("2026-11-21T10:00:00+02:00", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("", None),
        ("yesterday", None),
    ],
)
def test_a_moment_without_a_zone_is_utc(text: str, expected: datetime | None) -> None:
    assert parse_time(text) == expected


@pytest.mark.parametrize("word", ["night", "toy", "gpt", "gaia", "mine", "budget", "r17"])
def test_a_word_is_looked_for_in_every_text_of_a_run(word: str) -> None:
    run = entry("Night", system="Toy", model="GPT", data="Gaia", prompts="Mine", reason="Budget", run_id="R17")
    assert Selection.read([word], NOW).select([run]) == [run]
    assert Selection.read(["crashed"], NOW).select([run]) == []
