"""What was typed after `eval/run.py` or `optimize/run.py`, checked first: Hydra's own complaints are for programmers.

read_flags(["model=offline", "--cfg", "job"]).overrides      # ["model=offline"]
check_overrides(["optimizer=gepa"], "eval")      # UserError: optimizer is not a group of choices of this command; …
"""

import re
from argparse import Namespace
from collections.abc import Sequence

import yaml
from dotenv import load_dotenv
from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from omegaconf import DictConfig, OmegaConf

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from mas.runtime.errors import UserError

CONF = PROJECT_ROOT / "conf"
_ALONE = ("run", "multirun", "cfg", "info", "shell_completion")  # flags that say what is to be done


def read_flags(arguments: Sequence[str]) -> Namespace:
    """Hydra's flags, and the options between them as `overrides`.

    Raises:
        UserError: a flag that there is not, or that does not go with the others.
    """
    parser = get_args_parser()
    parser.error = _refuse_flags  # type: ignore[method-assign,assignment]
    flags, unknown = parser.parse_known_args(arguments)
    if unknown_flags := [argument for argument in unknown if argument.startswith("-")]:
        raise UserError(f"{unknown_flags[0]} is not a flag; options are given as name=value, and --help lists them.")
    if unknown:
        raise UserError(f"{unknown[0]} stands after a flag; give all options name=value first, then the flags.")
    given = [f"--{name.replace('_', '-')}" for name in _ALONE if getattr(flags, name)]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} cannot be given together; leave out all but one.")
    if flags.resolve and not (flags.cfg or flags.help):
        raise UserError("--resolve is for what --cfg shows; give --cfg job with it, or leave it out.")
    if flags.package and not flags.cfg:
        raise UserError("--package is for what --cfg shows; give --cfg job with it, or leave it out.")
    if flags.experimental_rerun:
        raise UserError("--experimental-rerun is not for this command; to go on with a run see --help: resume.")
    return flags


def _refuse_flags(message: str) -> None:
    raise UserError(f"the flags cannot be read: {message}; options are given as name=value, and --help lists them.")


def check_overrides(overrides: Sequence[str], config_name: str) -> None:
    """What Hydra's own errors do not explain, above all about groups of choices.

    Args:
        overrides: as they were typed.
        config_name: of the command's own file in `conf/`, whose defaults are the groups that it takes.

    Raises:
        UserError: the first mistake.
    """
    groups = _groups(config_name)
    for override in overrides:
        name, given, value = (part.strip() for part in override.partition("="))
        group, elsewhere, _ = name.lstrip("~+").partition("@")
        sign = name[:1]
        if not group or not (given or sign == "~"):
            raise UserError(f"{override!r} is not an option; options are given as name=value, and texts in quotes.")
        if re.fullmatch(r"[a-z_]+", group) and (CONF / group).is_dir():
            if not elsewhere:  # model@scorer.judge=… puts a choice where the file in conf/ has none
                _check_group(override, sign, group, value, groups)
            if given and value == "null":
                raise UserError(f"{override} is not possible: {group} is a group of choices; {_choose(group)}.")


def _check_group(override: str, sign: str, group: str, value: str, groups: dict[str, str | None]) -> None:
    if group not in groups:
        listed = ", ".join(sorted(groups))
        raise UserError(f"{group} is not a group of choices of this command; choose one of: {listed}.")
    if sign == "~" and groups[group] is not None:
        raise UserError(f"{override} is not possible: {group} cannot be taken away; {_choose(group)}.")
    if sign == "+":
        raise UserError(f"{override} is not possible: {group} has a choice already; write {group}={value}.")


def _groups(config_name: str) -> dict[str, str | None]:
    """The groups that a command takes, and what it takes of each by default."""
    defaults = yaml.safe_load((CONF / f"{config_name}.yaml").read_text("utf-8"))["defaults"]
    pairs = [pair for each in defaults if isinstance(each, dict) for pair in each.items()]
    return {group: choice for group, choice in pairs if not group.startswith("override ")}


def _choose(group: str) -> str:
    choices = ", ".join(sorted(file.stem for file in (CONF / group).glob("*.yaml")))
    return f"choose one of: {choices}; or leave it out"


def composed(overrides: Sequence[str]) -> DictConfig:
    """The configuration as `eval/run.py` would compose it, with `.env` read first.

    Raises:
        UserError: something that is no override, a question without quotes most likely; or that no group takes.
        HydraException, OmegaConfBaseException: the same mistakes as in `eval/run.py`; see
        `eval.cli.command.describe_mistake`.
    """
    check_overrides(overrides, "eval")
    load_dotenv(PROJECT_ROOT / ".env")
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        return compose("eval", list(overrides))
