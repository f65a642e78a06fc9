"""GAIA from a folder laid out like its repository, and from a repository served over loopback."""

from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from eval.benchmarks.hugging_face import REVISION, GaiaDataset
from mas.runtime.errors import UserError
from tests.servers.hub import run_with_hub, serving

README = """---
configs:
- config_name: 2023_all
  data_files:
  - {split: validation, path: 2023/validation/metadata.parquet}
  - {split: test, path: 2023/test/metadata.parquet}
- config_name: 2023_level1
  data_files:
  - {split: validation, path: 2023/validation/metadata.level1.parquet}
  - {split: test, path: 2023/test/metadata.level1.parquet}
---
# GAIA
"""


def row(id: str, **columns: Any) -> dict[str, Any]:
    return {
        "task_id": id,
        "Question": f"Question {id}?",
        "Level": "1",
        "Final answer": "x",
        "file_name": "",
        "file_path": "",
        "Annotator Metadata": {"Steps": "add forty and two", "Number of steps": "1"},
    } | columns


def write_table(root: Path, name: str, *rows: dict[str, Any]) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), root / name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small repository: two validation rows, one of them with a file, and one test row."""
    root = tmp_path / "GAIA"
    file = {"file_name": "a.csv", "file_path": "2023/validation/a.csv"}
    write_table(root, "2023/validation/metadata.level1.parquet", row("1", **file), row("2"))
    write_table(root, "2023/validation/metadata.parquet", row("1", **file), row("2"), row("3", Level="3"))
    write_table(root, "2023/test/metadata.level1.parquet", row("t", **{"Final answer": "?"}))
    write_table(root, "2023/test/metadata.parquet", row("t", **{"Final answer": "?"}))
    (root / "2023/validation/a.csv").write_text("a,b\n")
    (root / "2023/validation/unused.csv").write_text("nobody names me\n")
    (root / "README.md").write_text(README)
    return root


def test_a_local_copy_is_read_with_its_files(root: Path) -> None:
    first, second = GaiaDataset(path=str(root)).load("validation").samples
    assert (first.id, first.target, first.file) == ("1", "x", root / "2023/validation/a.csv")
    assert (second.id, second.file) == ("2", None)


def test_the_annotators_solution_enters_no_example(root: Path) -> None:
    assert "forty" not in repr(GaiaDataset(path=str(root)).load("validation"))


def test_the_test_split_is_unscored(root: Path) -> None:
    (sample,) = GaiaDataset(path=str(root)).load("test").samples
    assert sample.target is None


def test_a_bad_row_is_named_by_table_and_row(root: Path) -> None:
    rows = (row("1"), row("2", file_name="../../README.md"))
    write_table(root, "2023/validation/metadata.level1.parquet", *rows)
    with pytest.raises(UserError, match=r"2023_level1/validation, row 2: the attachment '../../README\.md' is not the"):
        GaiaDataset(path=str(root)).load("validation")
    split = GaiaDataset(path=str(root), on_bad_row="skip").load("validation")
    assert (len(split.samples), len(split.bad_rows)) == (1, 1)


@pytest.mark.parametrize(
    ("config", "split", "there_is"),
    [("2023_level9", "validation", "2023_level1"), ("2023_level1", "train", "validation")],
)
def test_an_unknown_config_or_split_lists_those_there_are(root: Path, config: str, split: str, there_is: str) -> None:
    with pytest.raises(UserError, match=rf"cannot be read as {config}/{split}: .*Available.*'{there_is}'"):
        GaiaDataset(path=str(root), config=config).load(split)


@pytest.mark.parametrize("damage", ["README.md", "2023/validation/metadata.level1.parquet"])
@pytest.mark.parametrize("content", [None, b"---\n- [broken\n---\n"])
def test_a_damaged_local_copy_is_one_sentence(root: Path, damage: str, content: bytes | None) -> None:
    (root / damage).unlink()
    if content is not None:
        (root / damage).write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as 2023_level1/validation: ") as error:
        GaiaDataset(path=str(root)).load("validation")
    assert "\n" not in str(error.value)


@pytest.fixture
def no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Hugging Face's libraries with nothing in it."""
    for name in ("HF_TOKEN", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path / "hf"


def test_without_a_token_the_check_says_where_to_get_access(no_token: Path) -> None:
    with pytest.raises(UserError) as error:
        GaiaDataset().check()
    for part in (
        "https://huggingface.co/datasets/gaia-benchmark/GAIA",
        "accept the terms",
        "HF_TOKEN",
        "experiment=offline",
    ):
        assert part in str(error.value)


LOAD = """
from eval.benchmarks.hugging_face import GaiaDataset
for example in GaiaDataset().load("validation").samples:
    print(example.id, example.file and (example.file.name, example.file.read_text()))
"""


@pytest.mark.slow
def test_the_hub_is_asked_only_for_the_table_and_the_files_that_it_names(root: Path, tmp_path: Path) -> None:
    with serving(root, REVISION) as (hub, requested):
        assert run_with_hub(LOAD, hub, tmp_path / "hf").splitlines() == ["1 ('a.csv', 'a,b\\n')", "2 None"]
    fetched = {path.split(REVISION)[1] for path in requested if "/resolve/" in path}
    assert "/2023/validation/a.csv" in fetched
    assert not fetched & {
        "/2023/validation/unused.csv",
        "/2023/test/metadata.parquet",
        "/2023/validation/metadata.parquet",
    }
    stored = [file for file in (tmp_path / "hf").rglob("*") if file.is_file() and b"hf_secret" in file.read_bytes()]
    assert stored == []
