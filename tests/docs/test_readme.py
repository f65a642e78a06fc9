"""The README: short, with a real output and a picture first, and with commands that exist."""

import re
import shlex

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import read_config

PAGE = (PROJECT_ROOT / "README.md").read_text("utf-8")
COMMANDS = re.findall(r"^python eval/run\.py ([^#\n]+)", PAGE, re.MULTILINE)


def test_it_has_at_most_700_words() -> None:
    assert len(PAGE.split()) <= 700


def test_the_first_screen_has_an_output_and_a_picture() -> None:
    first = "\n".join(PAGE.splitlines()[:25])
    assert "accuracy" in first.partition("```text")[2]
    assert "](docs/images/" in first


def test_the_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT_ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"^make ([a-z-]+)", PAGE, re.MULTILINE))
    assert {"eval", "test", "test-slow", "docs"} <= named <= targets


@pytest.mark.parametrize("words", COMMANDS)
def test_every_evaluation_command_is_valid(words: str) -> None:
    overrides = [word for word in shlex.split(words) if word != "-m" and not word.startswith("run.resume")]
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base=None):
        assert read_config(compose("eval", [word.split(",")[0] for word in overrides])).system


def test_every_folder_at_the_top_is_in_the_tree() -> None:
    tree = set(re.findall(r"^(\w+)/  ", PAGE, re.MULTILINE))
    assert {"conf", "mas", "eval", "optimize", "prompts", "tests", "docs", "outputs"} == tree
