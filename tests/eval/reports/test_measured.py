from dataclasses import replace
from typing import Any

import pytest

from eval.reports.heading import format_title, read_names
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
    assert read_names(info(), "night") == {
        "folder": "night", "system": "gaia", "data": "sample", "split": "test", "prompts": "careful", "scorer": "gaia",
    }  # fmt: skip
    assert set(read_names(RunInfo(), "night").values()) == {"night", None}


def test_the_prompts_used_last_count_rather_than_those_configured() -> None:
    kept = replace(info(), prompts={"prompts": "careful", "prompts_2": "c014"})
    assert read_names(kept, "winner")["prompts"] == "c014"


@pytest.mark.parametrize(
    ("target", "name"),
    [("eval.scorers.numeric.NumericScorer", "numeric"), ("my_rules.judge.Judge", "my_rules.judge.Judge")],
)
def test_a_scorer_is_called_what_the_command_line_calls_it(target: str, name: str) -> None:
    assert read_names(info(scorer={"_target_": target}), "x")["scorer"] == name


def test_a_title_leaves_out_what_is_unknown_or_usual() -> None:
    summary = {"run_id": "r1", "model": "m-1", **read_names(info(), "night")}
    assert format_title(summary) == "gaia · m-1 · sample/test · prompts careful · night"
    assert format_title({**summary, "split": None, "prompts": None}) == "gaia · m-1 · sample · night"
    assert format_title({"run_id": "r1"}) == "r1"


def test_a_name_cannot_move_the_terminal() -> None:
    assert format_title({"run_id": "r1", "model": "a\n\x1b[31mb" + "x" * 99}).startswith("a \\u001b[31mbxxx")
    assert len(format_title({"run_id": "r1", "model": "x" * 999})) < 80
