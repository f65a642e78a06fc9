from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.summary.from_store import read_names
from eval.runs.run_info import RunInfo

CONFIG = {
    "system": {"name": "gaia"},
    "data": {"name": "sample", "default_split": "val"},
    "scorer": {"_target_": "eval.scorers.gaia.GaiaScorer"},
    "split": "test",
    "prompts": "shelf/careful",
}


def info(**changes: Any) -> RunInfo:
    return RunInfo(config={**CONFIG, **changes})


def test_names_come_from_the_configuration_that_the_run_has_kept() -> None:
    assert vars(read_names(replace(info(), model="m"), "night")) == {
        "folder": "night", "system": "gaia", "data": "sample", "split": "test", "prompts": "careful", "scorer": "gaia",
        "model": "m",
    }  # fmt: skip
    assert set(vars(read_names(RunInfo(), "night")).values()) == {"night", None}


def test_the_prompts_used_last_count_rather_than_those_configured() -> None:
    kept = replace(info(), prompts={"prompts": "careful", "prompts_2": "c014"})
    assert read_names(kept, "winner").prompts == "c014"


@pytest.mark.parametrize(
    ("target", "name"),
    [("eval.scorers.numeric.NumericScorer", "numeric"), ("my_rules.judge.Judge", "my_rules.judge.Judge")],
)
def test_a_scorer_is_called_what_the_command_line_calls_it(target: str, name: str) -> None:
    assert read_names(info(scorer={"_target_": target}), "x").scorer == name
