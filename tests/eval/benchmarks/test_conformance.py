"""Every dataset of `conf/data/` keeps the contract `Dataset`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pandas
import pytest
from omegaconf import DictConfig, OmegaConf

from eval.benchmarks.dataset import Dataset, Sample, Split
from eval.config.evaluation import build_part
from mas.agents.targets import name_object
from mas.runtime.errors import UserError

CONF = Path(__file__).parents[3] / "conf" / "data"
NAMES = sorted(file.stem for file in CONF.glob("*.yaml"))
WRONG = {  # a setting that `check` refuses
    "jsonl": ("path", "nowhere"),
    "csv": ("delimiter", ";;"),
    "hf": ("repo", "neither/a/folder/nor/a/repository"),
    "gaia": ("path", "nowhere"),
    "gaia_level1": ("path", "nowhere"),
    "toy": ("n_train", 0),
    "excel": ("path", str(Path(__file__))),  # no workbook
    "in_memory": ("target", "in-memory:nothing"),
}
ROWS = [
    {"task_id": "1", "Question": "How many?", "Final answer": "4", "Level": "1"},
    {"task_id": "2", "Question": "Which?", "Final answer": "red", "Level": "2"},
]


def write_data(name: str, folder: Path) -> dict[str, str]:
    """Write a dataset, and return the settings that name it."""
    if name == "jsonl":
        (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
        return {"path": str(folder)}
    if name == "csv":
        lines = [",".join(ROWS[0]), *(",".join(row.values()) for row in ROWS)]
        (folder / "x.csv").write_text("\n".join(lines))
        return {"path": str(folder / "x.csv")}
    if name == "excel":
        pandas.DataFrame(ROWS).to_excel(folder / "x.xlsx", index=False)
        return {"path": str(folder / "x.xlsx")}
    rows = [json.dumps({**row, "file_name": ""}) for row in ROWS]
    if name == "hf":
        (folder / "test.jsonl").write_text("\n".join(rows))
        return {"repo": str(folder)}
    if name.startswith("gaia"):
        config = "2023_all" if name == "gaia" else "2023_level1"
        (folder / "README.md").write_text(
            f"---\nconfigs:\n- config_name: {config}\n  data_files:\n  - split: validation\n    path: x.jsonl\n---\n"
        )
        (folder / "x.jsonl").write_text("\n".join(rows))
        return {"path": str(folder)}
    return {}


@pytest.fixture
def dataset(name: str, tmp_path: Path) -> Iterator[Dataset]:
    with name_object(ROWS, "samples") as target:
        settings = {"target": target} if name == "in_memory" else write_data(name, tmp_path)
        files = ["gaia", name] if name == "gaia_level1" else [name]  # the first one is in the defaults of the second
        node = OmegaConf.merge(*(OmegaConf.load(CONF / f"{file}.yaml") for file in files), settings)
        assert isinstance(node, DictConfig)
        node.pop("defaults", None)
        built = build_part(node, "data")
        assert isinstance(built, Dataset), "a method of the contract is missing"
        yield built


@pytest.mark.parametrize("name", NAMES)
def test_it_reads_its_default_split(dataset: Dataset, name: str) -> None:
    assert dataset.name == name
    dataset.check()
    split = dataset.load(dataset.default_split)
    assert isinstance(split, Split)
    assert split.samples and all(isinstance(sample, Sample) for sample in split.samples)
    assert len({sample.id for sample in split.samples}) == len(split.samples)
    assert all(sample.question.strip() and sample.target for sample in split.samples)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_split_is_the_users_mistake(dataset: Dataset, name: str) -> None:
    with pytest.raises(UserError):
        dataset.load("no such split")


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_is_found_before_anything_is_read(dataset: Dataset, name: str) -> None:
    setting, value = WRONG[name]
    setattr(dataset, setting, value)
    with pytest.raises(UserError):
        dataset.check()
