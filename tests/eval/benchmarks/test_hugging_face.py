"""Any dataset of Hugging Face: from a local folder laid out like one, and what is said when it cannot be had."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from eval.benchmarks.hugging_face import HuggingFaceDataset
from mas.runtime.errors import UserError
from tests.servers.hub import run_with_hub, serving

README = """---
configs:
- config_name: main
  data_files:
  - {split: test, path: data/test.parquet}
  - {split: train, path: data/train.parquet}
- config_name: other
  data_files: [{split: test, path: data/other.parquet}]
---
"""
COLUMNS: dict[str, str | None] = {"question": "prompt", "answer": "label"}
ROWS = [{"prompt": "Who?", "label": "Ann", "steps": "think of Bo"}, {"prompt": "When?", "label": "7", "steps": "now"}]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def write(root: Path, name: str, *rows: dict[str, Any]) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), root / name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    write(root, "data/test.parquet", *ROWS)
    write(root, "data/train.parquet", {**ROWS[0], "prompt": "Train?"})
    write(root, "data/other.parquet", {**ROWS[0], "prompt": "Other?"})
    (root / "README.md").write_text(README)
    return root


def benchmark(root: Path, columns: dict[str, str | None] = COLUMNS, **settings: Any) -> HuggingFaceDataset:
    return HuggingFaceDataset(str(root), **{"config": "main", "columns": columns, **settings})


def questions(root: Path, split: str = "test", **settings: Any) -> list[str]:
    return [sample.question for sample in benchmark(root, **settings).load(split).samples]


def test_config_and_split_choose_the_rows(root: Path) -> None:
    assert questions(root) == ["Who?", "When?"]
    assert questions(root, "train") == ["Train?"]
    assert questions(root, config="other") == ["Other?"]


def test_json_lines_in_a_folder_need_no_readme(tmp_path: Path) -> None:
    folder = tmp_path / "lines"
    folder.mkdir()
    (folder / "test.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    assert questions(folder, config=None) == ["Who?", "When?"]


def refusal(root: Path, split: str = "test", **settings: Any) -> str:
    with pytest.raises(UserError) as raised:
        questions(root, split, **settings)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("settings", "there_is"),
    [({"config": "nope"}, "'main'"), ({"config": None}, "'other'"), ({"split": "dev"}, "'train'")],
)
def test_an_unknown_config_or_split_lists_those_there_are(root: Path, settings: dict[str, Any], there_is: str) -> None:
    message = refusal(root, **settings)
    assert "cannot be read as" in message and there_is in message


def test_attachments_lie_in_the_folder_or_in_another_one(root: Path, tmp_path: Path) -> None:
    write(root, "data/test.parquet", {**ROWS[0], "doc": "a.txt"})
    columns = {**COLUMNS, "file": "doc"}
    (root / "a.txt").touch()
    assert benchmark(root, columns).load("test").samples[0].file == root / "a.txt"
    write(root, "data/test.parquet", {**ROWS[0], "doc": "train.parquet"})
    (root / "train.parquet").touch()
    assert "'train.parquet' is the dataset's metadata, which holds the gold answers" in refusal(root, columns=columns)
    write(root, "data/test.parquet", {**ROWS[0], "doc": "a.txt"})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "'a.txt' is not in" in refusal(root, columns=columns, files=str(elsewhere))
    (elsewhere / "a.txt").touch()
    assert benchmark(root, columns, files=str(elsewhere)).load("test").samples[0].file == elsewhere / "a.txt"


COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOAD = """
import time

def waited(seconds):
    raise SystemExit(f"waited {seconds} s")

time.sleep = waited
from eval.benchmarks.hugging_face import HuggingFaceDataset
from mas.runtime.errors import UserError
columns = {"question": "prompt", "answer": "label", "file": "doc"}
settings = {"config": "main", "revision": "REVISION", "columns": columns}
try:
    for example in HuggingFaceDataset("owner/name", **settings).load("test").samples:
        print(example.question, example.target, example.file and example.file.read_text())
except UserError as error:
    print("UserError", error)
"""


def load_from(hub: str, home: Path, revision: str = COMMIT, **environment: str) -> list[str]:
    return run_with_hub(LOAD.replace("REVISION", revision), hub, home, **environment).splitlines()


@pytest.mark.slow
def test_a_dataset_of_the_hub_is_fetched_with_the_files_that_it_names(root: Path, tmp_path: Path) -> None:
    write(root, "data/test.parquet", {**ROWS[0], "doc": "a.txt"}, {**ROWS[1], "doc": None})
    (root / "a.txt").write_text("attached")
    (root / "unused.txt").write_text("nobody names me")
    with serving(root, COMMIT) as (hub, requested):
        assert load_from(hub, tmp_path / "home") == ["Who? Ann attached", "When? 7 None"]
        mirror = hub.replace("//", "//me:password@")  # such as one within a company
        assert load_from(mirror, tmp_path / "other") == ["Who? Ann attached", "When? 7 None"]
    # Without a network what was fetched before is used.
    assert load_from(hub, tmp_path / "home") == ["Who? Ann attached", "When? 7 None"]
    (refused,) = load_from(hub, tmp_path / "home", "f" * 40)
    assert refused.startswith(f"UserError owner/name at revision {'f' * 40} could not be fetched (")
    assert any(path.endswith("/a.txt") for path in requested)
    assert not any("unused.txt" in path and "/resolve/" in path for path in requested)


@pytest.mark.slow
def test_a_dataset_that_cannot_be_had_is_one_sentence_without_the_token(root: Path, tmp_path: Path) -> None:
    with serving(root, COMMIT, gated=True) as (hub, _):
        gated = load_from(hub, tmp_path / "home")
    offline = load_from("http://127.0.0.1:1", tmp_path / "home")
    for (told,), cause in ((gated, "DatasetNotFoundError"), (offline, "ConnectionError")):
        assert told.startswith(
            f"UserError owner/name at revision {COMMIT} could not be fetched ({cause}): check the name at "
            "https://huggingface.co/datasets/owner/name, "
        )
        assert "HF_TOKEN" in told
