"""Named inputs instead of one question: which columns they are read from, and what is said about a wrong one."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.files import CsvDataset, JsonlDataset
from eval.benchmarks.fingerprint import compute_dataset_digest
from eval.benchmarks.hugging_face import HuggingFaceDataset
from mas.runtime.errors import UserError

ROWS = [
    {"title": "Refund", "body": "I want my money back", "label": "billing", "id": "t1"},
    {"title": "Crash", "body": "It stops at once", "label": "bug", "id": "t2"},
]


def read_csv(folder: Path, rows: Sequence[dict[str, Any]], **settings: Any) -> tuple[Sample, ...]:
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return CsvDataset(path=str(folder / "rows.csv"), **settings).load("all").samples


def read_jsonl(folder: Path, rows: Sequence[dict[str, Any]], **settings: Any) -> tuple[Sample, ...]:
    file = folder / "metadata.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return JsonlDataset(path=str(file), **settings).load("all").samples


def read_parquet(folder: Path, rows: Sequence[dict[str, Any]], **settings: Any) -> tuple[Sample, ...]:
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "rows.parquet")
    return JsonlDataset(path=str(folder / "rows.parquet"), **settings).load("all").samples


def read_hugging_face(folder: Path, rows: Sequence[dict[str, Any]], **settings: Any) -> tuple[Sample, ...]:
    (folder / "repo").mkdir()
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "repo" / "test.parquet")
    return HuggingFaceDataset(str(folder / "repo"), **settings).load("test").samples


READERS: list[Callable[..., tuple[Sample, ...]]] = [read_csv, read_jsonl, read_parquet, read_hugging_face]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.mark.parametrize("read", READERS)
def test_columns_become_named_inputs_and_one_readable_text(tmp_path: Path, read: Callable[..., Any]) -> None:
    samples = read(tmp_path, ROWS, inputs=["title", "body"], target_column="label")
    assert [(each.id, each.target) for each in samples] == [("t1", "billing"), ("t2", "bug")]
    assert list(samples[0].inputs.items()) == [("title", "Refund"), ("body", "I want my money back")]
    assert samples[0].question == "title: Refund\nbody: I want my money back"


def test_a_field_may_have_another_name_than_its_column(tmp_path: Path) -> None:
    (sample, _) = read_csv(tmp_path, ROWS, inputs={"ticket": "body"}, target_column="label")
    assert (dict(sample.inputs), sample.question) == ({"ticket": "I want my money back"}, "I want my money back")


def test_values_that_are_no_text_arrive_as_json(tmp_path: Path) -> None:
    row = {"tags": ["a", "b"], "n": 3, "note": None, "answer": "x"}
    (sample,) = read_jsonl(tmp_path, [row], inputs=["tags", "n", "note"])
    assert dict(sample.inputs) == {"tags": '["a", "b"]', "n": "3", "note": ""}


def test_the_digest_of_a_dataset_covers_which_field_holds_what() -> None:
    apart = [Sample("1", "a: x\nb: y", inputs=inputs) for inputs in ({"a": "x", "b": "y"}, {"a": "x\nb: y"}, {})]
    assert len({compute_dataset_digest([each]) for each in apart}) == 3


MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no such column": ({"inputs": ["titel", "body"]}, ["no column 'titel'", "data.inputs", "title, body, label"]),
    "no such column of a field": ({"inputs": {"ticket": "boddy"}}, ["no column 'boddy'", "title, body"]),
    "the target": ({"inputs": ["title", "label"]}, ["'label'", "target column", "gold answers"]),
    "nothing": ({"inputs": []}, ["data.inputs=[]", "data.inputs=[title,body]"]),
    "a number": ({"inputs": 3}, ["data.inputs=3", "list of columns"]),
    "no such target": (
        {"inputs": ["title"], "target_column": "labl"},
        ["no column 'labl', which data.target_column names", "title, body, label"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path: Path, mistake: str) -> None:
    settings, words = MISTAKES[mistake]
    with pytest.raises(UserError) as raised:
        read_csv(tmp_path, ROWS, **{"target_column": "label", **settings})
    message = str(raised.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message and message.endswith(".")


def test_a_row_without_any_input_is_a_bad_row(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 1: 'title', 'body' are all missing or empty"):
        read_jsonl(tmp_path, [{"title": " ", "answer": "x"}, {"body": "y", "answer": "x"}], inputs=["title", "body"])
