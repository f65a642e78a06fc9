"""What can be written on the command line for `data`, and what importing a benchmark costs."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, ValidationError

CONF = Path(__file__).parents[3] / "conf" / "data"
GIVEN = {  # what the user must give
    **{name: ["path=x"] for name in ("jsonl", "csv", "parquet", "excel")},
    **{"hf": ["repo=x/y"], "in_memory": ["target=in-memory:samples"], "text2sql": ["path=x", "databases=x"]},
}
NAMES = sorted(file.stem for file in CONF.glob("*.yaml"))


def merged(name: str, *overrides: str) -> DictConfig:
    """The group file and the command line over the dataclass, as the runner does it."""
    node = OmegaConf.merge(OmegaConf.load(CONF / f"{name}.yaml"), OmegaConf.from_dotlist(list(overrides)))
    assert isinstance(node, DictConfig)
    node.pop("defaults", None)  # the scorer that it chooses
    module, _, class_name = node.pop("_target_").rpartition(".")
    config = OmegaConf.merge(OmegaConf.structured(getattr(importlib.import_module(module), class_name)), node)
    assert isinstance(config, DictConfig)
    return config


def test_the_known_benchmarks_have_a_file() -> None:
    assert {"gaia", "gaia_level1", "jsonl", "csv", "parquet", "hf", "sample"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_fits_its_dataclass_and_names_its_command(name: str) -> None:
    config: Any = OmegaConf.to_object(merged(name, *GIVEN.get(name, [])))
    assert config.name == name
    assert config.default_split
    assert callable(config.load) and callable(config.check)
    command = (CONF / f"{name}.yaml").read_text().splitlines()[0]
    if name == "in_memory":  # not for the command line
        assert "mas_harness.evaluate(" in command
    else:
        assert command.startswith("# python eval/run.py ") and f"data={name}" in command.split()


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_in_the_file(name: str) -> None:
    in_file = OmegaConf.load(CONF / f"{name}.yaml")
    assert isinstance(in_file, DictConfig)
    assert set(in_file) - {"_target_", "defaults"} == set(merged(name))


def test_the_command_line_sets_the_keys_directly() -> None:
    config = merged("jsonl", "path=mine", "on_bad_row=skip", "columns.question=prompt")
    assert (config.path, config.on_bad_row) == ("mine", "skip")
    assert (config.columns.question, config.columns.id) == ("prompt", "task_id")


def test_own_data_must_be_given_a_path() -> None:
    with pytest.raises(MissingMandatoryValue):
        _ = merged("jsonl").path


def test_unknown_keys_and_wrong_types_are_refused() -> None:
    with pytest.raises(ConfigKeyError, match="pth"):
        merged("jsonl", "pth=mine")
    with pytest.raises(ValidationError):
        merged("gaia", "path=[a]")


def test_importing_a_benchmark_imports_nothing_heavy() -> None:
    code = """
import sys
import eval.benchmarks.gaia, eval.benchmarks.jsonl, scripts.sample_data.make_sample, eval.benchmarks.sample_set
import eval.benchmarks.table, eval.benchmarks.hub, eval.benchmarks.hugging_face
eval.benchmarks.hugging_face.HuggingFaceDataset("owner/name").check()
from eval.benchmarks.sample_set import BundledDataset
BundledDataset().check()
BundledDataset().load("val")
heavy = {"datasets", "pandas", "pyarrow", "huggingface_hub", "openpyxl", "pint", "yaml"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
