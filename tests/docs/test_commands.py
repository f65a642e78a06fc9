"""The commands on all pages: what is named exists, and every set of options composes and is accepted."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from eval.cli.hydra_compat import prepare_arguments
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import read_config as read_evaluation
from optimize.session.config import read_config as read_tuning
from tests.sampling import mostly_slow

PAGES = [PROJECT_ROOT / "README.md", *sorted((PROJECT_ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"^(?:MODEL=\S+ )?python (eval|optimize)/(\w+)\.py ?([^#\n<>|$]*)", re.MULTILINE)
OTHERWISE_READ = re.compile(r"resume=|^extra_scorers=|=(sums|close_text|my-qwen|unlucky|two_steps|hints|quiz)\b")
OF_THE_READER = re.compile(r"my|mine|notes|latest|hints|sums|two_steps|unlucky|editor|close_text|roman|\{|\\|…")


def find_commands(*scripts: str) -> list[tuple[str, str, str]]:
    """Return package, script and options of each command, once."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES).replace("\\\n", " ")
    found = {match.groups() for match in COMMAND.finditer(text) if match[2] in scripts}
    return sorted((package, script, options.strip()) for package, script, options in found)


@pytest.mark.parametrize(("package", "script", "options"), mostly_slow(find_commands("run")))
def test_a_run_with_these_options_can_be_configured(package: str, script: str, options: str) -> None:
    words = [word for word in shlex.split(options) if re.match(r"[+\w.@]+=", word) and not OTHERWISE_READ.search(word)]
    words = [word if "[" in word or "{" in word else word.split(",")[0] for word in words]
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base=None):
        composed = compose(package, prepare_arguments(words))
    if not re.search(r"=(my_|\w+\.(csv|jsonl|xlsx|parquet))", options):
        assert (read_evaluation if package == "eval" else read_tuning)(composed)


OTHERS = ("compare", "report", "rescore", "ask", "list_runs", "view", "attribute", "diff", "export")


@pytest.mark.parametrize(("package", "script", "options"), find_commands(*OTHERS))
def test_another_command_takes_these_words(package: str, script: str, options: str) -> None:
    import_module(f"{package}.{script}").read_arguments(shlex.split(options))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))
def test_every_file_and_make_target_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    files = re.findall(r"(?:python3?|source) ((?:eval|optimize|scripts|tests|deploy)/[\w/.-]+)", text)
    files += re.findall(r"`((?:mas|eval|optimize|conf|tests|scripts|deploy|prompts)/[\w/.-]+)`", text)
    assert [name for name in files if not OF_THE_READER.search(name) and not (PROJECT_ROOT / name).exists()] == []
    targets = re.findall(r"^([a-z-]+):", (PROJECT_ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)) <= set(targets)
