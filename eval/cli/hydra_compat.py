"""Hydra behind one module: the configuration from `conf/` and a command line.

It uses internals of Hydra 1.3 (`hydra._internal`); another version is refused at import. `eval.cli.mistakes` describes
its errors, `eval.cli.help` is its help.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import hydra
from dotenv import load_dotenv
from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from mas.runtime.errors import UserError

if not hydra.__version__.startswith("1.3."):
    raise ImportError(f"hydra-core {hydra.__version__} is installed, 1.3 is needed; run make setup")

CONF = PROJECT_ROOT / "conf"
EXTRA_SCORERS = "extra_scorers"
MISTAKES = (HydraException, OmegaConfBaseException, UserError)
_COMPOSING = Lock()  # Hydra has one state per process


def check_flags(arguments: Sequence[str]) -> None:
    """Check Hydra's flags, before Hydra prints its usage over several lines."""

    def refuse(message: str) -> None:
        raise UserError(f"the flags cannot be read: {message}; options are given as name=value, and --help lists them.")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign,assignment]
    _, unknown = parser.parse_known_args(arguments)
    if refused := [each for each in unknown if each.startswith("-")]:
        raise UserError(f"{refused[0]} is not a flag here; options are given as name=value, and --help lists them.")
    if unknown:
        raise UserError(f"{unknown[0]} comes after a flag; give all options name=value first, then the flags.")


def prepare_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the command line as Hydra takes it: texts quoted, and a list of scorers as a choice for each."""
    expanded = [part for each in arguments for part in _expand_scorers(each)]
    return [_quote_text(f"++{each}" if _OPEN_BRANCH.match(each) else each) for each in expanded]


_OPEN_BRANCH = re.compile(r"(?:system\.agents|model\.agents|system\.tools)\.\w")  # whose entries conf/ need not have


def _expand_scorers(argument: str) -> list[str]:
    """Return the choices that `extra_scorers=[graded,contains]` stands for, each a node of its own."""
    name, given, value = argument.partition("=")
    if name != EXTRA_SCORERS or not given:
        return [argument]
    names = re.findall(r"\w+", value)
    if not re.fullmatch(r"""\[[\w\s,'"]*\]""", value) or len(set(names)) != len(names):
        raise UserError(
            f"{argument} is not a list of scorers, each once; write {EXTRA_SCORERS}=[contains,numeric], and for a "
            f"second one of a kind +scorer@{EXTRA_SCORERS}.NAME=contains."
        )
    return [f"+scorer@{EXTRA_SCORERS}.{each}={each}" for each in names]


def _quote_text(argument: str) -> str:
    """Quote texts that Hydra cannot read, or would take for numbers: data.path=prüfung.csv, ids=[2024_01,007]."""
    if found := re.fullmatch(r"""([\w.+@/]+)=([^=,'"\\\[\]{}()$]+)""", argument):
        quoted = _quote_part(found[1], found[2])
        return f"ids=[{quoted}]" if found[1] == "ids" else f"{found[1]}={quoted}"
    if found := re.fullmatch(r"""([\w.+@/]+)=\[([^=\\\[\]{}()$]+)\]""", argument):
        parts = (part.strip() for part in found[2].split(",") if part.strip())
        return f"{found[1]}=[{','.join(_quote_part(found[1], part) for part in parts)}]"
    return argument


def _quote_part(name: str, value: str) -> str:
    if "'" in value or '"' in value:
        return value
    is_number = re.fullmatch(r"[+-]?[\d._]+(?:[eE][+-]?\d+)?", value)
    is_text = _NO_NUMBER.fullmatch(value) or (is_number and name.rpartition(".")[2] in _TEXTS)
    is_text = is_text or name == "ids" or not value.isascii()
    return f'"{value}"' if is_text else value


_NO_NUMBER = re.compile(r"[+-]?(?:\d+(?:_\d+)+|0\d+|\d+[eE]\d{3,})")  # 2024_01, 007 and 12e45678, for Hydra numbers
_TEXTS = ("name", "split", "revision", "sheet", "prompts", "dir", "resume")  # options that are no numbers


def compose_config(overrides: Sequence[str], config_name: str = "eval") -> DictConfig:
    """Return the configuration as `eval/run.py`, or another command with a file in `conf/`, would compose it.

    MISTAKES: the command line is wrong; see `eval.cli.mistakes.describe_mistake`.
    """
    _prepare()
    with _COMPOSING:
        before = GlobalHydra.instance().hydra  # of the user's own application, which may call this program
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(CONF), version_base="1.3"):
                return compose(config_name, prepare_arguments(overrides))
        finally:
            GlobalHydra.instance().hydra = before  # Hydra has made another instance


def format_override(name: str, value: object) -> str:
    """Return an override whose value Hydra reads as the text, truth value or list of texts that it is."""
    return f"{name}={_format_value(value)}"


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(_format_value, value))}]"
    escaped = re.sub(r'(\\*)("|$)', r"\1\1\2", str(value)).replace('"', '\\"').replace("${", "\\${")
    return f'"{escaped}"'


def _prepare() -> None:
    load_dotenv(PROJECT_ROOT / ".env")
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)


def run_jobs(job: Callable[[DictConfig], None], config_name: str, edit: Callable[[Sequence[str]], list[str]]) -> None:
    """Let Hydra compose the configuration of `conf/<config_name>.yaml` and run a job, or several for a multirun.

    `edit` changes the command line before Hydra reads it. MISTAKES: command line or configuration are wrong.
    SystemExit: --help and its like.
    """

    def describe() -> str:
        from eval.cli.help import describe_command

        return describe_command(config_name)

    _prepare()
    OmegaConf.register_new_resolver("help", describe, replace=True)
    check_flags(sys.argv[1:])
    sys.argv[1:] = prepare_arguments(edit(sys.argv[1:]))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints its errors over several lines and exits
    hydra.main(config_path=str(CONF), config_name=config_name, version_base="1.3")(job)()


class MultirunJob(NamedTuple):
    """Place of the job that is running in its multirun."""

    folder: Path  # of the multirun
    number: int  # from 0
    differs: list[str]  # overrides that other jobs have otherwise


def get_multirun_job() -> MultirunJob | None:
    """Return the place of the job that is running; None outside of a multirun."""
    hydra_config = HydraConfig.get() if HydraConfig.initialized() else None
    if hydra_config is None or hydra_config.mode != RunMode.MULTIRUN:
        return None
    typed = [each for each in sys.argv[1:] if "=" in each and not each.startswith("-")]
    overrides = OverridesParser.create().parse_overrides(typed)
    swept = tuple(f"{each.get_key_element()}=" for each in overrides if each.is_sweep_override())
    differs = [_remove_sign(each) for each in hydra_config.overrides.task if each.startswith(swept)]
    return MultirunJob(Path(hydra_config.sweep.dir).absolute(), int(hydra_config.job.num), differs)


def get_task_overrides() -> list[str]:
    """Return the overrides of this job, as they were typed."""
    return [_remove_sign(each) for each in HydraConfig.get().overrides.task]


def _remove_sign(override: str) -> str:
    typed = override.removeprefix("++")
    return typed if _OPEN_BRANCH.match(typed) else override
