"""Every file in `conf/` composes and builds; two questions run with each that needs no key and no gate."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import PARTS, build_part, read_config
from optimize.session import config as tuning_config
from tests.eval.command_line import NO_SEARCH, EvalCommand, Finished, question, write_questions
from tests.sampling import mostly_slow

CONF = PROJECT_ROOT / "conf"
OPTIONS = sorted((file.parent.name, file.stem) for file in CONF.glob("*/*.yaml"))
MANDATORY = {  # what the user must give to a choice
    ("model", "openai_compatible"): ["model.base_url=http://127.0.0.1:9/v1"],
    ("model", "openai"): ["model.name=gpt-4.1"],
    ("model", "ollama"): ["model.name=qwen3"],
    ("model", "vllm"): ["model.name=Qwen/Qwen3-8B"],
    ("model", "sglang"): ["model.name=Qwen/Qwen3-8B"],
    ("model", "lmstudio"): ["model.name=qwen/qwen3-8b"],
    ("model", "litellm"): ["model.name=anthropic/claude-sonnet-4-5"],
    ("system", "callable"): ["system.target=my_agent:answer"],
    ("system", "dspy"): ["system.target=my_program:Program"],
    ("system", "http"): ["system.url=http://127.0.0.1:9/answer"],
    ("data", "jsonl"): ["data.path=my_folder"],
    ("data", "csv"): ["data.path=questions.csv"],
    ("data", "excel"): ["data.path=questions.xlsx"],
    ("data", "in_memory"): ["data.target=in-memory:samples"],
    ("data", "hf"): ["data.repo=owner/name"],
    ("scorer", "function"): ["scorer.target=my_rules:judge"],
}
COMMAND = re.compile(r"python (eval|optimize)/run\.py((?: [\w.]+=\S+)+)")
COMMANDS = {"optimizer": "optimize"}  # group → the one command that it is of; the others are of eval/run.py at least
READ: dict[str, Any] = {"eval": read_config, "optimize": tuning_config.read_config}


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def composed(*overrides: str, command: str = "eval") -> DictConfig:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(command, list(overrides))


def choice(group: str, option: str) -> list[str]:
    parts = {"table": ("data", "csv"), "calls": ("model", "litellm")}  # of these choices
    if group in parts:
        return choice(*parts[group])
    return [f"{group}={option}", *MANDATORY.get((group, option), [])]


def rounds() -> list[dict[str, str]]:
    """Choices that together have each option of the parts once, and each of the other groups by itself."""
    options = {group: [option for each, option in OPTIONS if each == group] for group, _ in OPTIONS}
    parts = {group: options.pop(group) for group in PARTS}
    together = [
        {group: each[number % len(each)] for group, each in parts.items()}
        for number in range(max(map(len, parts.values())))
    ]
    return together + [{group: option} for group, each in options.items() for option in each]


@pytest.mark.parametrize("chosen", rounds(), ids=lambda chosen: ",".join(chosen.values()))
def test_every_choice_composes_and_its_part_builds_with_the_values_of_its_file(chosen: dict[str, str]) -> None:
    command = next((COMMANDS[group] for group in chosen if group in COMMANDS), "eval")
    node = composed(*(each for item in chosen.items() for each in choice(*item)), command=command)
    for group in chosen:
        if group in (*PARTS, "optimizer"):
            check_part(node[group], group)
    config = READ[command](node)
    assert all(getattr(getattr(config, "base", config), part) is not None for part in PARTS)


def check_part(node: DictConfig, group: str) -> None:
    part = build_part(node, group)
    assert type(part) is get_class(node._target_)
    values: dict[str, Any] = OmegaConf.to_container(node, resolve=True)  # type: ignore[assignment]
    for key, value in values.items():
        if key != "_target_" and not isinstance(value, dict):
            assert getattr(part, key) == value


def commands() -> list[tuple[str, str, list[str]]]:
    """Every example command in a comment of `conf/`, with the file that it stands in."""
    files = sorted(CONF.rglob("*.yaml"))
    texts = [(file.relative_to(CONF).as_posix(), file.read_text("utf-8").replace("\\n", "\n")) for file in files]
    return [(name, found[1], found[2].split()) for name, text in texts for found in COMMAND.finditer(text)]


@pytest.mark.parametrize(
    ("file", "command", "overrides"), mostly_slow(commands(), [f"{name} {command}" for name, command, _ in commands()])
)
def test_every_command_in_a_comment_is_valid(file: str, command: str, overrides: list[str]) -> None:
    assert READ[command](composed(*overrides, command=command))


def two_questions(folder: Path) -> Path:
    write_questions(
        folder,
        question("sum", "What is 2 + 3? Give only the number.", "5"),
        question("price", "What is the price of apple in the attached file?", "7", file_name="prices.csv"),
    )
    (folder / "prices.csv").write_text("name,price\napple,7\npear,9\n")
    return folder


def check_two(finished: Finished) -> None:
    """Both questions right, by a model that makes no mistakes."""
    assert (finished.code, finished.err) == (0, NO_SEARCH)
    assert (finished.summary["n"], finished.summary["n_error"], finished.summary["accuracy"]) == (2, 0, 1.0)


def check_two_simulated(finished: Finished) -> None:
    """Both questions ended in a record; the simulated model may be wrong, or break its format, by design."""
    assert finished.code in (0, 2) and finished.err == ""
    assert len(finished.records) == len(finished.answers) == finished.summary["n"] == 2
    assert set(finished.summary["errors_by_class"]) <= {"malformed"}


def test_two_questions_run_with_the_sample_and_the_simulated_model(eval_command: EvalCommand) -> None:
    check_two_simulated(eval_command("experiment=offline", "limit=2"))
    check_two_simulated(eval_command("experiment=offline", "limit=2", "model.native_tools=false"))


@pytest.mark.parametrize("data", ["gaia", "gaia_level1"])
def test_two_questions_run_with_a_local_copy_of_gaia(sure_command: EvalCommand, tmp_path: Path, data: str) -> None:
    split = tmp_path / "GAIA" / "2023" / "validation"
    metadata = two_questions(split) / "metadata.jsonl"
    rows = [{"file_name": "", **json.loads(line)} for line in metadata.read_text("utf-8").splitlines()]
    metadata.unlink()
    for name in ("metadata.parquet", "metadata.level1.parquet"):
        pq.write_table(pa.Table.from_pylist(rows), split / name)
    (tmp_path / "GAIA" / "README.md").write_text(
        "---\nconfigs:\n"
        "- {config_name: 2023_all, data_files: [{split: validation, path: 2023/validation/metadata.parquet}]}\n"
        "- {config_name: 2023_level1, "
        "data_files: [{split: validation, path: 2023/validation/metadata.level1.parquet}]}\n"
        "---\n"
    )
    check_two(sure_command(f"data={data}", f"data.path={tmp_path / 'GAIA'}"))
