"""Records: what counts, and their form on the disk, which shows damage."""

import json
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.benchmarks.dataset import Sample
from eval.runs.record import (
    NOT_RUN,
    ErrorDetails,
    ExtraScore,
    HumanVerdict,
    JournalContent,
    JournalRow,
    PlannedQuestion,
    Record,
    Usage,
    add_entry,
    build_missing_record,
    build_row,
    encode_entry,
    encode_plan,
    encode_record,
    escape,
    insert_row,
    is_intact,
    is_whole,
    join_line,
    read_meta,
    read_plan,
    read_rows,
    unescape,
    write_meta,
    write_plan,
)
from eval.runs.run_database import _SCHEMA

FINISHED = "2026-11-22T08:00:00+00:00"
PLAN = [("q1", '{"question": "One?"}'), ("q2", '{"question": "Two?"}')]


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    with sqlite3.connect(":memory:") as database:
        database.executescript(_SCHEMA)
        yield database
    database.close()


def record(**values: Any) -> Record:
    given_ones = {"file": None, "level": "1", "target": "42", **values}
    return Record("run", given_ones.pop("sample_id", "q1"), 1, 1, "thread", "What is 6 * 7?", **given_ones)


def test_what_counts() -> None:
    assert [(each.value, each.correct) for each in (record(score=1.0), record(score=0.5), record())] == [
        (1.0, True),
        (0.5, False),
        (0.0, False),
    ]
    assert record(error="broken").scored and not record(target=None, score=1.0).scored


def test_a_record_says_nothing_that_it_was_not_given() -> None:
    counts = ("lm_calls", "retries", "replayed_calls", "cached_calls", "tool_calls", "replayed_tool_calls")
    counts += ("cached_tool_calls", "input_tokens", "cached_input_tokens", "output_tokens", "unknown_cost_calls")
    usage = {**dict.fromkeys(counts, 0), "cost_usd": None, "known_cost_usd": 0.0, "oldest_cached_tool_result": None}
    assert vars(Usage()) == usage
    verdict = HumanVerdict("1", "wrong_gold", "me", FINISHED, "run")
    assert (verdict.is_of_question, verdict.is_applied, verdict.note) == (False, True, "")
    assert (verdict.target, verdict.target_before, verdict.score_before) == (None, None, None)
    assert vars(ExtraScore(None)) == {"value": None, "explanation": "", "error": None}
    assert vars(ErrorDetails()) == {"type": None, "stack": "", "agent": None, "step": None, "retry_counts": {}}
    bare = Record("r", "q", 2, 3, "t", "?", None, None, None).to_dict()
    given_ones = {"run_id": "r", "sample_id": "q", "epoch": 2, "attempt": 3, "thread_id": "t", "question": "?"}
    unset = ("file", "level", "target", "answer", "score", "error", "error_class", "error_component", "error_details")
    assert bare == given_ones | dict.fromkeys((*unset, "limit")) | {
        "reasoning_trace": "", "explanation": "", "started_at": "", "wall_seconds": 0.0, "waited_seconds": 0.0,
        "parts": {}, "extra_scores": {}, "usage": usage, "scorer_usage": usage, "seconds_by_agent": {},
        "calls_by_tool": {}, "tool_errors": {}, "reviews": {}, "leaks": [], "blocked_pages": {}, "human": [],
        "state": {}, "trajectory": [],
    }  # fmt: skip


def test_a_known_part_of_the_cost_is_the_least_that_was_paid() -> None:
    assert Usage(known_cost_usd=0.25).at_least_usd == 0.25
    assert Usage(cost_usd=0.5, known_cost_usd=0.25).at_least_usd == 0.5
    assert Usage(cost_usd=0.0, known_cost_usd=0.25).at_least_usd == 0.0


def test_a_record_is_read_back_with_all_of_its_parts() -> None:
    whole = record(
        usage=Usage(lm_calls=3, cost_usd=0.5),
        scorer_usage=Usage(lm_calls=1),
        error_details=ErrorDetails("ValueError", "stack", "planner", "plan", {"planner": 2}),
        extra_scores={"exact": ExtraScore(0.0, "differs")},
        human=[HumanVerdict("1", "wrong_gold", "me", FINISHED, "run")],
        state={"final": "42"},
        trajectory=[{"kind": "lm"}],
    )
    assert Record.from_dict(whole.to_dict()) == whole
    assert Record.from_dict(json.loads(build_row(whole, 1, FINISHED)[2])) == whole
    bare = {"run_id": "r", "sample_id": "q", "epoch": 2, "attempt": 3, "thread_id": "t", "question": "?"}
    read = Record.from_dict({**bare, "file": None, "level": None, "target": None, "human": None, "extra_scores": None})
    assert (read.epoch, read.attempt, read.usage, read.human, read.error_details) == (2, 3, Usage(), [], None)


def test_a_question_that_was_never_asked_is_in_error_and_counts(tmp_path: Path) -> None:
    sample = Sample("q1", "What?", target="42", level="1", file=tmp_path / "table.csv", tags={"kind": "sum"})
    planned = PlannedQuestion.of(sample)
    assert planned.to_dict() == {
        **{"id": "q1", "question": "What?", "file": "table.csv", "target": "42", "level": "1"},
        "tags": {"kind": "sum"},
    }
    assert PlannedQuestion.of(Sample("q2", "What?")).file is None
    missing = build_missing_record("run", planned, epoch=3)
    assert (missing.run_id, missing.sample_id, missing.epoch, missing.attempt) == ("run", "q1", 3, 1)
    assert (missing.question, missing.file, missing.level, missing.target) == ("What?", "table.csv", "1", "42")
    assert (missing.error_class, missing.error_component, missing.scored, missing.value) == (NOT_RUN, "run", True, 0.0)
    assert missing.thread_id == "" and missing.started_at.endswith("+00:00")
    assert missing.error == "the run stopped before this question was answered"


def test_details_are_apart_and_the_line_is_whole() -> None:
    data, details = encode_record(record(state={"step": 1}, trajectory=[{"kind": "lm"}]))
    assert json.loads(details) == {"state": {"step": 1}, "trajectory": [{"kind": "lm"}]}
    assert not {"state", "trajectory"} & json.loads(data).keys()
    assert json.loads(join_line(data, details)) == {**json.loads(data), **json.loads(details)}
    loop: dict[Any, Any] = {"nan": math.nan, ("a", 1): {2}}
    loop["loop"] = loop
    strange = json.loads(encode_record(record(state=loop))[1], parse_constant=lambda name: pytest.fail(name))
    assert strange["state"].keys() >= {"nan", "loop"}


@pytest.mark.parametrize(
    ("values", "error_class"),
    [({}, None), ({"error": "broken"}, "unknown"), ({"error": "broken", "error_class": "timeout"}, "timeout")],
)
def test_a_row_holds_what_is_asked_of_the_store(values: dict[str, Any], error_class: str | None) -> None:
    usages = {"usage": Usage(known_cost_usd=0.25), "scorer_usage": Usage(cost_usd=0.5)}
    row, details, line = build_row(record(**usages, **values), 7, FINISHED)
    number, sample_id, epoch, attempt, thread_id, error, cost_usd, finished_at, _, data, _ = row
    assert (number, sample_id, epoch, attempt, thread_id) == (7, "q1", 1, 1, "thread")
    assert (error, cost_usd, finished_at) == (error_class, 0.75, FINISHED)
    assert join_line(data, details) == line


def test_damage_to_any_column_is_seen() -> None:
    row, details, _ = build_row(record(), 1, FINISHED)
    assert is_intact(row)
    for place in range(len(row)):
        assert not is_intact((*row[:place], "other", *row[place + 1 :])), place
    data, line_crc = row[-2], row[-3]
    assert is_whole(data, details, line_crc)
    assert not is_whole(data + " ", details, line_crc) and not is_whole(data, details, line_crc + 1)
    assert not is_whole(None, details, line_crc) and not is_whole(data, None, line_crc)
    assert not is_whole(data.encode(), details, line_crc) and not is_whole(data, b"", line_crc)


@given(st.text())
def test_any_text_fits_a_column(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert escaped.isascii() and "\x00" not in escaped


def test_rows_are_read_without_their_content(database: sqlite3.Connection) -> None:
    for number, name in enumerate(("q\x001", "ü"), start=1):
        row, details, _ = build_row(record(sample_id=name), number, FINISHED)
        insert_row(database, row, details)
    found = read_rows(database)
    assert list(found) == [1, 2]
    assert [each.key for each in found.values()] == [("q\x001", 1, 1), ("ü", 1, 1)]
    assert {each.finished_at for each in found.values()} == {FINISHED}
    (stored,) = database.execute("SELECT data FROM details WHERE row = 2").fetchone()
    assert json.loads(stored) == {"state": {}, "trajectory": []}


def test_meta_shows_its_damage(database: sqlite3.Connection) -> None:
    assert read_meta(database, "run") is None
    write_meta(database, "run", "1")
    write_meta(database, "run", "2")
    assert read_meta(database, "run") == "2"
    database.execute("UPDATE meta SET value = '3'")
    with pytest.raises(sqlite3.DatabaseError, match="its run has a wrong checksum"):
        read_meta(database, "run")


def test_the_plan_is_read_back_in_its_order_and_has_a_checksum(database: sqlite3.Connection) -> None:
    write_plan(database, PLAN[::-1])
    assert read_plan(database) == PLAN[::-1]
    assert read_meta(database, "plan") == encode_plan(PLAN[::-1])
    number, crc = json.loads(encode_plan(PLAN))
    assert number == 2
    assert [2, crc] != json.loads(encode_plan(PLAN[::-1])) != json.loads(encode_plan(PLAN[:1]))


def test_the_journal_says_the_same_as_text() -> None:
    content = JournalContent()
    row = {"row": 3, "sample_id": "q1", "epoch": 1, "attempt": 2, "finished_at": FINISHED, "line_crc": 5}
    entries: list[dict[str, object]] = [{"meta": ["k", "a"]}, {"meta": ["k", "b"]}, {"plan": PLAN}, {"row": row}]
    for entry in entries:
        line = encode_entry(entry)
        assert line.endswith("\n")
        add_entry(content, line.rstrip("\n").encode())
    assert content.meta == {"k": "b"} and content.plan == PLAN
    assert content.rows == {3: JournalRow(3, "q1", 1, 2, FINISHED, 5)}
    assert content.rows[3].key == ("q1", 1, 2)


@pytest.mark.parametrize("damage", [b"", b"12", b'7 {"meta": ["k", "c"]}', "1 ü".encode(), b'x {"meta": ["k", "c"]}'])
def test_a_damaged_line_of_the_journal_changes_nothing(damage: bytes) -> None:
    content = JournalContent()
    with pytest.raises((ValueError, TypeError, KeyError)):
        add_entry(content, damage)
    assert content == JournalContent()
