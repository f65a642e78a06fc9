"""The pages on tuning: their tables are those of the code, their commands are valid."""

import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from eval.benchmarks.dataset import Sample, Split
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from optimize.diff import read_arguments as diff_arguments
from optimize.export import read_arguments as export_arguments
from optimize.gate.gate import FinishReason, GateSettings, compute_smallest_gain, power_table
from optimize.pipeline.cost_estimate import Estimate, build_plan
from optimize.pipeline.sealed_answers import PARENT_ARM, WINNER_ARM
from optimize.questions.splits import SplitSettings, make_splits
from optimize.search.budget import BudgetSettings
from optimize.search.optimizers.bootstrap_optimizer import BootstrapOptimizer
from optimize.search.optimizers.gepa_optimizer import GepaOptimizer
from optimize.search.optimizers.mipro_optimizer import MiproOptimizer
from optimize.session import run_files
from optimize.session.config import OptimizeConfig, read_config

PAGES = [
    PROJECT_ROOT / name
    for name in (
        "docs/how-to/tune.md",
        "docs/reference/tuning.md",
        "docs/reference/run-folder.md",
        "docs/explanation/optimisation.md",
        "docs/reference/command-line.md",
        "README.md",
        "conf/optimize.yaml",
        "optimize/run.py",
    )
]
PAGE = "\n".join(page.read_text("utf-8") for page in PAGES[:4])
COMMAND = re.compile(r"python optimize/run\.py((?:[ ]+(?:'[^']*'|[\w.]+=\S+))+)")
LEVELS = (("1", 53), ("2", 86), ("3", 26))  # GAIA's validation split


def composed(*overrides: str) -> OptimizeConfig:
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base=None):
        return read_config(compose("optimize", list(overrides)))


def section(title: str) -> str:
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title}"
    return found[1]


def rows(text: str, head: str) -> dict[str, str]:
    """The first two columns of the table whose head begins so."""
    table = re.search(rf"^\| {re.escape(head)}.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, f"no table {head}"
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]
    return {each[0].strip("` "): each[1] for each in cells}


def defaults(settings: type, prefix: str = "") -> dict[str, str]:
    """As the page writes them."""
    return {
        prefix + each.name: "none" if each.default is None else str(each.default).lower()
        for each in fields(settings)
        if each.name not in ("name", "needs_reflection")
    }


def test_every_way_to_end_is_explained() -> None:
    assert set(rows(section("How a run ends"), "`finish_reason`")) == set(get_args(FinishReason))


def test_each_phase_names_only_ways_to_end_that_there_are() -> None:
    told = set(re.findall(r"`(\w+)`", "".join(line.rsplit("|", 2)[1] for line in phase_lines())))
    assert told == set(get_args(FinishReason))


def phase_lines() -> list[str]:
    return re.findall(r"^\| \d .*\|$", section("What a run does"), re.MULTILINE)


def test_the_phases_are_those_that_a_run_shows() -> None:
    source = "".join(
        (PROJECT_ROOT / "optimize/pipeline" / each).read_text("utf-8") for each in ("tuning.py", "publication.py")
    )
    shown = {
        name for found in re.findall(r'"((?:\d/8 [\w ]+(?:, )?)+)["{:]', source) for name in re.split(r", ", found)
    }
    told = {
        f"{number}/8 {name}" for number, name in re.findall(r"^\| (\d) ([\w ]+?) \|", section("What a run does"), re.M)
    }
    assert {each.replace(" on validation", "") for each in shown} == told


def test_budgets_and_gate_are_the_codes() -> None:
    unquoted = {key: value.strip("`") for key, value in rows(section("The gate"), "Option").items()}
    assert unquoted == defaults(GateSettings, "gate.")
    assert rows(section("Budgets"), "Option") == defaults(BudgetSettings, "budget.")


@pytest.mark.parametrize("optimizer", [GepaOptimizer, MiproOptimizer, BootstrapOptimizer])
def test_the_optimizers_settings_are_the_codes_and_the_files(optimizer: type) -> None:
    name = optimizer.name  # type: ignore[attr-defined]
    told = {key: value.strip("`") for key, value in rows(section("The optimizers"), f"`optimizer={name}`").items()}
    assert told == defaults(optimizer)
    file: dict[str, Any] = yaml.safe_load((PROJECT_ROOT / "conf/optimizer" / f"{name}.yaml").read_text("utf-8"))
    assert {key: str(value).lower() for key, value in file.items() if key not in ("_target_", "name")} == told


def test_the_files_of_a_run_are_all_told_of() -> None:
    lines = re.findall(r"^    (\S.*)$", run_files.__doc__ or "", re.MULTILINE)
    names = re.findall(r"(?<!\()\b[a-z_]+\.(?:jsonl|json|yaml|db)", "\n".join(lines))
    assert len(names) >= 10
    told = section("A tuning run")
    assert not [name for name in names if f"`{name}`" not in told]
    assert all(f"`sealed/{arm}`" in told for arm in (PARENT_ARM, WINNER_ARM))


def test_the_power_table_is_the_codes() -> None:
    assert power_table() in PAGE


def test_what_gaia_can_show_is_what_is_said() -> None:
    gains = [100 * (compute_smallest_gain(53, 5, accuracy) or 1) for accuracy in (0.2, 0.3, 0.4, 0.5, 0.6)]
    low, high = map(int, re.findall(r"gain of (\d+) to (\d+) points", section("What to expect on GAIA"))[0])
    assert (low, high) == (round(min(gains)), round(max(gains)))


class LikeGaia:
    """As many questions of each level as GAIA has."""

    name, default_split, sealed_level = "gaia", "validation", "1"

    def load(self, split: str) -> Split:
        made = (
            Sample(f"{level}-{number}", f"question {level} {number}", None, "x", level, {})
            for level, count in LEVELS
            for number in range(count)
        )
        return Split(tuple(made))


def test_the_estimate_for_gaia_is_what_the_program_says(tmp_path: Path) -> None:
    splits = make_splits(LikeGaia(), SplitSettings())
    assert f"({len(splits.train)} + {len(splits.val)})" in section("Splits")
    for more, total in (([], None), (["reflection_model=gpt-4o"], "With `reflection_model=gpt-4o` the total is ")):
        config = composed(*more)
        plan = build_plan(config.optimizer, splits, 7, config.budget, config.shortlist, config.gate)
        lines = Estimate.guess(plan, config.base, config.reflection_model, tmp_path).lines(config.budget)
        if total is None:
            assert "\n".join(lines) in PAGE
        else:
            assert f"{total}{lines[-1].rpartition(', ')[2]}." in PAGE


def commands() -> list[tuple[str, str]]:
    return [(page.name, found[1].strip()) for page in PAGES for found in COMMAND.finditer(_text(page))]


def _text(page: Path) -> str:
    return page.read_text("utf-8").replace("\\n", "\n")


@pytest.mark.parametrize(("page", "overrides"), commands())
def test_every_tuning_command_is_valid(page: str, overrides: str) -> None:
    words = [each for each in shlex.split(overrides) if not each.startswith("resume=")]
    assert composed(*words).name


def test_the_offline_experiment_is_for_tuning_as_well() -> None:
    config = composed("experiment=offline")
    assert (config.base.model_name, config.base.data.name, config.base.system.name) == ("offline", "sample", "gaia")


def test_the_other_commands_take_the_words_that_are_shown() -> None:
    for script, reader in (("export", export_arguments), ("diff", diff_arguments)):
        found = re.findall(rf"^python optimize/{script}\.py ([^#\n]+)", PAGE, re.MULTILINE)
        assert found
        for words in found:
            assert reader(shlex.split(words))


def test_every_option_that_is_named_there_is() -> None:
    config: Any = yaml.safe_load((PROJECT_ROOT / "conf/optimize.yaml").read_text("utf-8"))
    for page in PAGES[:6]:
        for group, key in re.findall(r"`(budget|gate|shortlist|splits)\.(?!json)(\w+)", page.read_text("utf-8")):
            assert key in config[group], f"{page.name}: {group}.{key}"
