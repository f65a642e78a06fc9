"""Tables of the reference pages and of the architecture: what they list is what the code has."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.cli.paths import PROJECT_ROOT
from mas.tools.catalogue import BROWSER
from mas.tools.files import kinds
from optimize.gate.gate import compute_smallest_gain
from tests.test_faults import LASTING, PASSING

DOCS, CONF = PROJECT_ROOT / "docs", PROJECT_ROOT / "conf"
CONFIGURATION, ARCHITECTURE, TOOLS, ERRORS = (
    (DOCS / page).read_text("utf-8")
    for page in (
        "reference/configuration.md",
        "explanation/architecture.md",
        "reference/tools.md",
        "reference/errors.md",
    )
)


def read_conf(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CONF / f"{name}.yaml").read_text("utf-8"))
    return loaded


def test_the_groups_and_their_choices_are_the_files_of_conf() -> None:
    named = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", CONFIGURATION.partition("## Keys")[0], re.MULTILINE))
    folders = {folder.name: folder for folder in CONF.iterdir() if folder.is_dir()}
    assert named.keys() == folders.keys()
    for group, folder in folders.items():
        assert [file.stem for file in folder.glob("*.yaml") if f"`{file.stem}`" not in named[group]] == [], group


@pytest.mark.parametrize(("title", "file"), [("Keys of an evaluation", "eval"), ("Keys of a tuning run", "optimize")])
def test_the_keys_exist_and_have_these_defaults(title: str, file: str) -> None:
    own, shared = read_conf(file), read_conf("every_run")
    config = {**shared, **own, "run": {**shared["run"], **own.get("run", {})}}
    section = CONFIGURATION.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "`" in line[:4]]
    assert len(rows) > 10
    for cells in rows:
        keys = [key for key in re.findall(r"`([a-z_.]+)`", cells[0]) if key.partition(".")[0] in config]
        values = [find(config, key) for key in keys]
        if len(keys) == 1 and re.fullmatch(r"\N{EN DASH}|`.+`|[\d.]+", cells[1]):
            default = "\N{EN DASH}" if values[0] is None else str(values[0]).lower()
            assert cells[1].strip('`"') == default, keys[0]


def find(config: Any, key: str) -> Any:
    for part in key.split("."):
        assert part in config, key
        config = config[part]
    return config


def test_the_tools_are_those_of_the_systems() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", TOOLS, re.MULTILINE))
    for system in ("gaia", "single_agent"):
        assert read_conf(f"system/{system}")["tools"].keys() | {BROWSER} <= listed


def test_the_kinds_of_attachments_are_those_that_are_read_and_refused() -> None:
    section = (DOCS / "how-to/tools.md").read_text("utf-8") + TOOLS
    for kind in kinds.READABLE:
        assert f"`{kind}`" in section, kind


def test_the_power_table_is_what_the_gate_computes() -> None:
    page = (DOCS / "explanation/optimisation.md").read_text("utf-8").partition("| sealed questions | answers each |")[2]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (.+) \|$", page.partition("\n\n")[0], re.MULTILINE)
    assert len(rows) == 28
    for n_questions, epochs, cells in rows:
        gains = [compute_smallest_gain(int(n_questions), int(epochs), correlation=each) for each in (0.3, 0.5, 0.8)]
        assert cells.split(" | ") == ["none" if each is None else f"{100 * each:.1f}" for each in gains]


def test_the_table_of_faults_is_the_one_that_is_tested() -> None:
    row = re.compile(r"^\| ((?:`\w+` ?)+) \| `?(\w+)`? \| (\S) \| (answered|the same) \|$", re.MULTILINE)
    lasting: dict[str, tuple[str | None, int | None]] = {}
    answered = set()
    for names, kind, requests, passing in row.findall(ERRORS):
        for name in names.replace("`", "").split():
            lasting[name] = (None, None) if kind == "answered" else (kind, int(requests))
            answered |= {name} if passing == "answered" else set()
    assert lasting == {name: (kind, requests if kind else None) for name, (kind, requests) in LASTING.items()}
    assert answered == {name for name, (kind, _) in PASSING.items() if kind is None}


def test_what_the_architecture_points_to_exists() -> None:
    rows = re.findall(r"^\| (.+\?) \| (.+) \| `(.+)` \|$", ARCHITECTURE, re.MULTILINE)
    assert len(rows) > 20
    for question, paths, name in rows:
        files = [PROJECT_ROOT / path for path in re.findall(r"`(\S+/\S*)`", paths)]
        assert all(path.exists() for path in files), question
        assert name in str(files[-1]) or any(name in text for text in map(read_all, files)), question


def read_all(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else "".join(f.read_text("utf-8") for f in path.rglob("*.py"))


@pytest.mark.parametrize("package", ["mas", "eval", "optimize"])
def test_the_layers_are_those_of_import_linter(package: str) -> None:
    contracts = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract.get("containers") == [package]]
    table = ARCHITECTURE.partition(f"| Layer of `{package}/` |")[2].partition("\n\n")[0]
    shown = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    assert [set(row) for row in shown] == [set(re.split(r"\W+", layer)) for layer in layers]


def test_the_readme_fits_on_a_few_screens_and_its_tree_is_the_checkouts() -> None:
    page = (PROJECT_ROOT / "README.md").read_text("utf-8")
    assert len(page.split()) <= 700
    tree = set(re.findall(r"^(\w+)/  ", page, re.MULTILINE))
    assert {"conf", "mas", "eval", "optimize", "prompts", "tests", "docs", "outputs"} == tree
