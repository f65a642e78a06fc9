"""The pages on options and commands: choices, keys and scripts exist, and defaults are those of `conf/`."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.cli.paths import PROJECT_ROOT

DOCS = PROJECT_ROOT / "docs"
PAGE = (DOCS / "reference/configuration.md").read_text("utf-8")
PAGES = [*sorted(DOCS.rglob("*.md")), PROJECT_ROOT / "README.md"]


def read_conf(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((PROJECT_ROOT / "conf" / f"{name}.yaml").read_text("utf-8"))
    return loaded


def read_table(title: str) -> list[list[str]]:
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "`" in line[:4]]


def find(config: Any, key: str) -> Any:
    for part in key.split("."):
        assert part in config, key
        config = config[part]
    return config


def test_the_groups_and_their_choices_are_the_files_of_conf() -> None:
    groups = PAGE.partition("## Keys")[0]
    named = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", groups, re.MULTILINE))
    folders = {folder.name: folder for folder in (PROJECT_ROOT / "conf").iterdir() if folder.is_dir()}
    assert named.keys() == folders.keys()
    for group, folder in folders.items():
        missing = [file.stem for file in folder.glob("*.yaml") if f"`{file.stem}`" not in named[group]]
        assert missing == [], group


@pytest.mark.parametrize(("title", "file"), [("Keys of an evaluation", "eval"), ("Keys of a tuning run", "optimize")])
def test_the_keys_exist_and_have_these_defaults(title: str, file: str) -> None:
    config, rows = read_conf(file), read_table(title)
    assert len(rows) > 10
    for cells in rows:
        keys = [
            key for key in re.findall(r"`([a-z_.]+)`", cells[0]) if key.startswith(tuple(f"{top}." for top in config))
        ]
        keys += [key for key in re.findall(r"`([a-z_]+)`", cells[0]) if key in config]
        for key in keys:
            find(config, key)
        if len(keys) == 1 and re.fullmatch(r"\N{EN DASH}|`.+`|[\d.]+", cells[1]):
            default = find(config, keys[0])
            shown = cells[1].strip('`"')
            assert shown == ("\N{EN DASH}" if default is None else str(default).lower()), keys[0]


def test_every_key_of_the_two_files_is_named() -> None:
    for title, file in (("Keys of an evaluation", "eval"), ("Keys of a tuning run", "optimize")):
        text = "\n".join(" ".join(cells) for cells in read_table(title))
        text += PAGE.partition("## Keys of a tuning run")[2]
        config = read_conf(file)
        keys = [top for top in config if top not in ("defaults", "hydra", "run", "split")]
        keys += [f"run.{key}" for key in config["run"]]
        assert [key for key in keys if not re.search(rf"`{key}(`|\.)", text)] == [], file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))
def test_every_script_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    named = re.findall(r"(?:python3?|source) ((?:eval|optimize|scripts|tests|deploy)/[\w/.-]+)", text)
    named += re.findall(r"`((?:mas|eval|optimize|conf|tests|scripts|deploy|prompts)/[\w/.-]+)`", text)
    made = "my-qwen|roman_numerals|close_text|sums|hints|two_steps|unlucky|my_first|mine|editor"  # by the reader
    assert [name for name in named if not re.search(made, name) and not (PROJECT_ROOT / name).exists()] == []
