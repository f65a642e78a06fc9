"""Hydra behind one module: the configuration from `conf/` and a command line.

    run_jobs(task, "eval", list, describe_command)               # task(composed), once per job
    compose_config(["model=offline"])                            # the same configuration, outside a command
    check_overrides(["optimizer=gepa"], "eval")                  # UserError: optimizer is not a config group of …

It uses internals of Hydra 1.3 (`hydra._internal`); another version is refused at import. `eval.cli.mistakes` describes
its errors, `eval.cli.help` is its help.
"""

import difflib
import functools
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import hydra
import yaml
from dotenv import load_dotenv
from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from mas.runtime.errors import UserError

if not hydra.__version__.startswith("1.3."):
    raise ImportError(f"hydra-core {hydra.__version__} is installed, 1.3 is needed; run make setup")

CONF = PROJECT_ROOT / "conf"
SHARED = "every_run"  # file in `conf/` with the options that all commands have
EXTRA_SCORERS = "extra_scorers"
VERBOSE = "--verbose"  # our own flag, besides Hydra's
MISTAKES = (HydraException, OmegaConfBaseException, UserError)
_FLAGS = ("overrides", "help", "hydra_help", "cfg", "resolve", "multirun", "config_dir", "shell_completion")  # of Hydra
_COMPOSING = Lock()  # Hydra has one state per process


def read_flags(arguments: Sequence[str]) -> Namespace:
    """Parse Hydra's flags; the options between them are `overrides`.

    Raises:
        UserError: a flag is unknown, or does not go with the others.
    """

    def refuse(message: str) -> None:
        raise UserError(f"the flags cannot be read: {message}; options are given as name=value, and --help lists them.")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign,assignment]
    flags, unknown = parser.parse_known_args(arguments)
    others = [f"--{name.replace('_', '-')}" for name, value in vars(flags).items() if value and name not in _FLAGS]
    if refused := [*(each for each in unknown if each.startswith("-")), *others]:
        raise UserError(f"{refused[0]} is not a flag here; options are given as name=value, and --help lists them.")
    if unknown:
        raise UserError(f"{unknown[0]} comes after a flag; give all options name=value first, then the flags.")
    if flags.multirun and flags.cfg:
        raise UserError("--multirun and --cfg cannot be given together; leave one of them out.")
    return flags


def prepare_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the command line as Hydra takes it: texts quoted, and a list of scorers as a choice for each."""
    expanded = [part for each in arguments for part in _expand_scorers(each)]
    chosen = f"+scorer@{EXTRA_SCORERS}."  # typed again for a run that is resumed, it would be there twice
    once = [part for place, part in enumerate(expanded) if not (part.startswith(chosen) and part in expanded[:place])]
    return [_quote_text(f"++{each}" if _OPEN_BRANCH.match(each) else each) for each in once]


_OPEN_BRANCH = re.compile(r"(?:system\.agents|model\.agents|system\.tools)\.\w")  # whose entries conf/ need not have


def _expand_scorers(argument: str) -> list[str]:
    """Return the choices that `extra_scorers=[graded,contains]` stands for, each a node of its own.

    Raises:
        UserError: it is no list of names, or one is there twice.
    """
    name, given, value = argument.partition("=")
    if name != EXTRA_SCORERS or not given:
        return [argument]
    found = re.fullmatch(r"""\[\s*((["']?\w+["']?\s*,\s*)*["']?\w+["']?\s*)?\]""", value.strip())
    if not found:
        raise UserError(f"{argument} is not a list of scorers; write {EXTRA_SCORERS}=[contains,numeric].")
    names = re.findall(r"\w+", found[1] or "")
    if twice := sorted({each for each in names if names.count(each) > 1}):
        raise UserError(
            f"{argument} has {twice[0]} twice; the second one needs a name of its own: "
            f"+scorer@{EXTRA_SCORERS}.NAME={twice[0]}."
        )
    return [f"+scorer@{EXTRA_SCORERS}.{each}={each}" for each in names]


def _quote_text(argument: str) -> str:
    """Quote a value that Hydra cannot read without quotes, or would change: run.name=ünï cödé, split=2024_01.

    Other values with characters that mean something to Hydra (quotes, interpolations) are left as they are.
    """
    if found := _IDS.fullmatch(argument):
        parts = [each for each in _PART.findall(found[1] or found[2] or "") if each.strip()]
        quoted = (each if each[0] in "'\"" else f'"{each.strip()}"' for each in parts)
        return f"ids=[{','.join(quoted)}]"
    if found := _UNQUOTED.fullmatch(argument):
        is_text = _LIKE_A_NUMBER.fullmatch(found[2]) or (_NAMED.search(found[1]) and _NUMBER.fullmatch(found[2]))
        if is_text or not argument.isascii():
            return f'{found[1]}="{found[2]}"'
    if found := _PLAIN_LIST.fullmatch(argument):
        parts = [part.strip() for part in found[2].split(",") if part.strip()]
        quoted = (f'"{part}"' if _TEXT_IN_A_LIST.fullmatch(part) else part for part in parts)
        return f"{found[1]}=[{','.join(quoted)}]"
    return argument


_LIKE_A_NUMBER = re.compile(r"[+-]?(?:\d+(?:_\d+)+|0\d+|\d+[eE]\d{3,})")  # 2024_01, 007, 12e45678: texts, not numbers
_NAMED = re.compile(r"(?:^|\.)(?:name|split|revision|sheet|prompts|dir)$")  # options that are texts: run.name=1.10
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TEXT_IN_A_LIST = re.compile(rf"{_LIKE_A_NUMBER.pattern}|\d+[eE]\d+")
_IDS = re.compile(r"""ids=(?:\[((?:[^'"\[\]\\$]|'[^'\\]*'|"[^"\\]*")*)\]|([^,'"\[\]{}()$=\\]+))""")  # or a single one
_PART = re.compile(r"""'[^']*'|"[^"]*"|[^,'"]+""")
_PLAIN_LIST = re.compile(r"""([\w.+@/]+)=\[([^'"\\\[\]{}()$:]*)\]""")
_UNQUOTED = re.compile(r"""([\w.+@/]+)=([^=,'"\\\[\]{}()$]+)""")


def check_overrides(overrides: Sequence[str], config_name: str) -> None:
    """Check overrides for what Hydra's own errors do not explain, above all config groups.

    Args:
        overrides: as they were typed.
        config_name: of the command's own file in `conf/`, whose defaults are the groups that it takes.

    Raises:
        UserError: the first mistake.
    """
    own, shared = _read_file(config_name), _read_file(SHARED)
    pairs = (pair for each in own["defaults"] if isinstance(each, dict) for pair in each.items())
    groups = {group: choice for group, choice in pairs if not group.startswith("override ")}
    options = {"hydra", *groups, *own, *shared} - {"defaults"}
    for override in overrides:
        name, given, value = (part.strip() for part in override.partition("="))
        group, elsewhere, _ = name.lstrip("~+").partition("@")
        if not group or not (given or name.startswith("~")):
            raise UserError(f"{override!r} is not an option; options are given as name=value, and texts in quotes.")
        first = group.partition(".")[0].partition("/")[0]
        if re.fullmatch(r"\w+", first) and first not in options and not (CONF / first).is_dir():
            raise UserError(f"{first} is not an option; {suggest(first, options)}.")
        if re.fullmatch(r"[a-z_]+", group) and (CONF / group).is_dir():
            if not elsewhere:  # model@scorer.judge=… puts a choice where the file in conf/ has none
                _check_group(override, name[:1], group, value, groups)
            if given and value == "null":
                raise UserError(f"{override} is not possible: {group} is a config group; {_describe_choices(group)}.")


def _check_group(override: str, sign: str, group: str, value: str, groups: dict[str, str | None]) -> None:
    if group not in groups:
        listed = ", ".join(sorted(groups))
        raise UserError(f"{group} is not a config group of this command; choose one of: {listed}.")
    if sign == "~" and groups[group] is not None:
        raise UserError(f"{override} is not possible: {group} cannot be taken away; {_describe_choices(group)}.")
    if sign == "+":
        raise UserError(f"{override} is not possible: {group} has a choice already; write {group}={value}.")


def _read_file(name: str) -> dict[str, Any]:
    return yaml.safe_load((CONF / f"{name}.yaml").read_text("utf-8"))  # type: ignore[no-any-return]


def suggest(name: str, known: Collection[str]) -> str:
    """Return a clause that lists the known names, with the most similar one first if any is similar."""
    listed = f"choose one of: {', '.join(sorted(set(known) - {'hydra'}))}"
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]}? Otherwise {listed}" if close else listed


def list_choices(group: str) -> list[str]:
    """Return the names of a group's files."""
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


def _describe_choices(group: str) -> str:
    return f"choose one of: {', '.join(list_choices(group))}; or leave it out"


def compose_config(overrides: Sequence[str], config_name: str = "eval") -> DictConfig:
    """Return the configuration as `eval/run.py` would compose it, with `.env` read first.

    Args:
        overrides: as on a command line.
        config_name: of the command's file in `conf/`: `optimize` for that of `optimize/run.py`.

    Raises:
        UserError: an argument is no override (a question without quotes, most likely), or a choice is unknown.
        HydraException, OmegaConfBaseException: the same mistakes as in `eval/run.py`; see
            `eval.cli.mistakes.describe_mistake`.
    """
    check_overrides(overrides, config_name)
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
    """Return an override whose value Hydra reads as the text, number, list or null that it is."""
    return f"{name}={_format_value(value)}"


def _format_value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_format_value, value))}]"
    escaped = re.sub(r'(\\*)("|$)', r"\1\1\2", str(value)).replace('"', '\\"').replace("${", "\\${")
    return f'"{escaped}"'


def _prepare() -> None:
    """Read `.env`, and register the resolver that the files in `conf/` use."""
    load_dotenv(PROJECT_ROOT / ".env")
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)


def run_jobs(
    job: Callable[[DictConfig], None],
    config_name: str,
    edit: Callable[[Sequence[str]], list[str]],
    describe_command: Callable[[str], str],
) -> None:
    """Let Hydra compose the configuration and run a job, or several for a multirun.

    Args:
        job: called with each composed configuration.
        config_name: of the file in `conf/`.
        edit: changes the command line, after it was checked and before Hydra reads it.
        describe_command: returns the text of --help, from `config_name`.

    Raises:
        UserError, HydraException, OmegaConfBaseException: a mistake in the command line or in the configuration.
        SystemExit: --help and its like.
    """
    _prepare()
    OmegaConf.register_new_resolver("help", lambda: describe_command(config_name), replace=True)
    is_verbose = VERBOSE in sys.argv  # no override, so that the run's own command line stays as it is
    sys.argv[1:] = [each for each in sys.argv[1:] if each != VERBOSE]

    @functools.wraps(job)
    def run_job(composed: DictConfig) -> None:
        if is_verbose:
            with open_dict(composed):
                composed.log.terminal = True
        job(composed)

    flags = read_flags(sys.argv[1:])
    if not flags.shell_completion:
        check_overrides(flags.overrides, config_name)
    sys.argv[1:] = prepare_arguments(edit(sys.argv[1:]))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints its errors over several lines and exits
    hydra.main(config_path=str(CONF), config_name=config_name, version_base="1.3")(run_job)()


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
    """Return the override without the sign that `prepare_arguments` has added."""
    typed = override.removeprefix("++")
    return typed if _OPEN_BRANCH.match(typed) else override
