"""What is taken from JSON of others: values of the expected kind, within bounds, from plain files alone."""

import json
import os
from pathlib import Path

import pytest

from eval.analysis.run_list import foreign_json
from eval.analysis.run_list.foreign_json import (
    MAX_CHARS,
    MAX_NUMBER,
    as_interval,
    as_number,
    as_text,
    read_array,
    read_lines,
    read_object,
)


def test_a_file_holds_an_object_an_array_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"name": 1}')
    assert (read_object(file), read_array(file)) == ({"name": 1}, ())
    file.write_text("[1]")
    assert (read_object(file), read_array(file)) == ({}, [1])
    for damaged in ("", "{", "[" * 100_000, "1" * 5_000, "\udcff"):
        file.write_bytes(damaged.encode(errors="surrogateescape"))
        assert (read_object(file), read_array(file), read_lines(file)) == ({}, (), [])


def test_lines_that_are_no_objects_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"n": 1}\n[2]\n\n{}\n{"n": 3}\n{"n": ')
    assert read_lines(file) == [{"n": 1}, {"n": 3}]


def test_links_folders_pipes_and_what_is_not_there_are_empty(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text('{"secret": 1}')
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("link.json", "pipe.json", "missing.json", "."):
        assert read_object(tmp_path / name) == {}


def test_a_file_is_read_up_to_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"n": 1}')
    monkeypatch.setattr(foreign_json, "MAX_BYTES", 8)
    assert read_object(file) == {"n": 1}
    monkeypatch.setattr(foreign_json, "MAX_BYTES", 7)
    assert read_object(file) == {}


def test_values_of_another_kind_are_unknown() -> None:
    assert as_text("x" * (MAX_CHARS + 1)) == "x" * 300
    assert [as_text(each) for each in (None, 1, ["x"])] == ["", "", ""]
    assert [as_number(each) for each in (0, -1.5, 10**290)] == [0, -1.5, 10**290]
    assert [as_number(each) for each in (True, "1", None, MAX_NUMBER, -MAX_NUMBER, 10**400)] == [None] * 6
    assert as_number(json.loads("NaN")) is as_number(json.loads("-Infinity")) is None


def test_an_interval_is_two_numbers() -> None:
    assert as_interval([0, 0.5]) == (0, 0.5)
    for other in ([0], [0, 1, 2], [None, 1], [0, "1"], {"a": 0, "b": 1}, None):
        assert as_interval(other) is None
