"""Hydra behind one module: composition of `conf/`, flags, help, and its errors as users of this tool should see them.

    run_jobs(task, "eval", list)                                 # task(composed), once per job
    compose_config(["model=offline"])                            # the same configuration, outside a command
    check_overrides(["optimizer=gepa"], "eval")                  # UserError: optimizer is not a config group of …
    describe_mistake(error)                                      # one sentence

It uses internals of Hydra 1.3 (`hydra._internal`, texts of its errors); another version is refused at import.
"""

import ast
import difflib
import functools
import os
import re
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

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
from mas.runtime.errors import UserError, walk_chain

if not hydra.__version__.startswith("1.3."):
    raise ImportError(f"hydra-core {hydra.__version__} is installed, 1.3 is needed; run make setup")

CONF = PROJECT_ROOT / "conf"
EXTRA_SCORERS = "extra_scorers"
VERBOSE = "--verbose"  # our own flag, besides Hydra's
MISTAKES = (HydraException, OmegaConfBaseException, UserError)
_FLAGS = ("overrides", "help", "hydra_help", "cfg", "resolve", "multirun", "config_dir", "shell_completion")  # of Hydra


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
    groups, options = _read_groups(config_name), _read_options(config_name)
    for override in overrides:
        name, given, value = (part.strip() for part in override.partition("="))
        group, elsewhere, _ = name.lstrip("~+").partition("@")
        sign = name[:1]
        if not group or not (given or sign == "~"):
            raise UserError(f"{override!r} is not an option; options are given as name=value, and texts in quotes.")
        first = group.partition(".")[0].partition("/")[0]
        if re.fullmatch(r"\w+", first) and first not in options and not (CONF / first).is_dir():
            raise UserError(f"{first} is not an option; {suggest(first, options)}.")
        if re.fullmatch(r"[a-z_]+", group) and (CONF / group).is_dir():
            if not elsewhere:  # model@scorer.judge=… puts a choice where the file in conf/ has none
                _check_group(override, sign, group, value, groups)
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


def _read_groups(config_name: str) -> dict[str, str | None]:
    """Return the groups that a command takes, with the default of each."""
    defaults = yaml.safe_load((CONF / f"{config_name}.yaml").read_text("utf-8"))["defaults"]
    pairs = [pair for each in defaults if isinstance(each, dict) for pair in each.items()]
    return {group: choice for group, choice in pairs if not group.startswith("override ")}


def _read_options(config_name: str) -> set[str]:
    """Return the first parts of all options' names: groups, options of the command's file, and `hydra`."""
    plain = yaml.safe_load((CONF / f"{config_name}.yaml").read_text("utf-8"))
    return {"hydra", *_read_groups(config_name), *plain} - {"defaults"}


def suggest(name: str, known: Collection[str]) -> str:
    """Return a clause that lists the known names, with the most similar one first if any is similar."""
    listed = f"choose one of: {', '.join(sorted(set(known) - {'hydra'}))}"
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]}? Otherwise {listed}" if close else listed


def _list_choices(group: str) -> list[str]:
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


def _describe_choices(group: str) -> str:
    return f"choose one of: {', '.join(_list_choices(group))}; or leave it out"


def compose_config(overrides: Sequence[str], config_name: str = "eval") -> DictConfig:
    """Return the configuration as `eval/run.py` would compose it, with `.env` read first.

    Args:
        overrides: as on a command line.
        config_name: of the command's file in `conf/`: `optimize` for that of `optimize/run.py`.

    Raises:
        UserError: an argument is no override (a question without quotes, most likely), or a choice is unknown.
        HydraException, OmegaConfBaseException: the same mistakes as in `eval/run.py`; see
        `eval.cli.hydra_compat.describe_mistake`.
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


_COMPOSING = Lock()  # Hydra has one state per process


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


_GROUP = re.compile(r"  - (?P<group>\w+): (?P<default>\S+)\s*# (?P<meaning>.+)")


def describe_command(command: str) -> str:
    """Return what `--help` shows: the script's docstring, the choices of each group, and the options of its file.

    The file in `conf/` is read as text: its comments are what a user wants to see, and YAML drops them. Hydra makes a
    template of the text, so `$` is escaped.
    """
    purpose = ast.get_docstring(ast.parse((PROJECT_ROOT / command / "run.py").read_text("utf-8"))) or ""
    lines = (CONF / f"{command}.yaml").read_text("utf-8").splitlines()
    groups = [found for line in lines if (found := _GROUP.match(line))]
    width = max(len(each["group"]) for each in groups)
    shown = [purpose, "", "== Choices: group=name (* if none is given) =="]
    for group, default, meaning in (found.groups() for found in groups):
        choices = ", ".join(f"{name}*" if name == default else name for name in _list_choices(group))
        shown += [f"{group:<{width}}  {meaning}", f"{'':<{width}}  {choices}"]
    first = max(place for place, line in enumerate(lines) if line.startswith("  - ")) + 1
    options = "\n".join(lines[first : lines.index("hydra:")]).strip()
    shown += ["", "== Options, with the values they have if none is given ==", options, ""]
    shown += ["A choice's own options, such as model.temperature: its file, such as conf/model/openai.yaml."]
    shown += ["All options with their values for what is given: --cfg job"]
    return "\n".join(shown).replace("$", "$$")


def is_mistake(error: BaseException) -> bool:
    """Return whether the error is a mistake of the user, which `describe_mistake` can describe.

    Some are plain ValueErrors of Hydra: `model=1`, or `-sc` for a shell that it does not know.
    """
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    is_of_hydra = isinstance(error, ValueError) and bool(modules) and modules[-1].startswith("hydra.")
    return is_of_hydra or isinstance(error, MISTAKES)


def run_jobs(
    job: Callable[[DictConfig], None], config_name: str, edit: Callable[[Sequence[str]], list[str]] = list
) -> None:
    """Let Hydra compose the configuration and run a job, or several for a multirun.

    Args:
        job: called with each composed configuration.
        config_name: of the file in `conf/`.
        edit: changes the command line, after it was checked and before Hydra reads it.

    Raises:
        UserError, HydraException, OmegaConfBaseException: a mistake in the command line or in the configuration.
        SystemExit: --help and its like.
    """
    _prepare()
    OmegaConf.register_new_resolver("help", describe_command, replace=True)
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


def describe_mistake(error: BaseException) -> str:
    """Return one sentence: what is wrong, what was expected and what to do."""
    if isinstance(error, UserError):
        return str(error)
    text = (
        "\n".join(map(str, walk_chain(error))).partition("Config search path:")[0].partition("See https://hydra.cc")[0]
    )
    if found := re.search(r"Could not find '([^']*)'.*?Available options in '[^']*':\s*(.*)", text, re.DOTALL):
        group, _, name = found[1].rpartition("/")
        return f"{group}={name} is not known; {suggest(name, found[2].split())}."
    if found := re.search(r"Could not override '([^']*)'\. ?No match in the defaults list", text):
        return f"{found[1]} is not a config group of this command; --help lists them."
    if "Config group override must be" in text:
        return "a config group was given null, a number, true or false; name a choice, such as model=offline."
    if found := re.search(r"Ambiguous value for argument '(.*?)'\s+1\.", text, re.DOTALL):
        key = found[1].partition("=")[0]
        return (
            f"{found[1]} gives several values; add --multirun for one run after the other, or write '{key}=[a,b]' for "
            f"a list and '{key}=\"a,b\"' for a text."
        )
    if found := re.search(r"Could not delete from config\. '([^']*)' does not exist", text):
        return f"{found[1]} cannot be taken away: it does not exist; --help lists the options."
    if found := re.search(r"Key '([^']*)' (?:is not in struct|not in '[^']*').*?full_key: (\S+)", text, re.DOTALL):
        if found[2] in _OF_RAY:
            return f"{found[2]} needs executor=ray: executor=local answers in the command's own process."
        return f"{found[2]} is not an option; {_list_siblings(error, found[2])}."
    if found := re.search(r"Missing mandatory value: (\S+)", text):
        return f"{found[1]} has no value; give it on the command line: {found[1]}=…"
    if found := re.search(r"is not a ListConfig.*?full_key: (\S+)", text, re.DOTALL):
        return f"{found[1]} needs a list; give it as {found[1]}=[a,b]."
    if found := re.search(r"(.*?)\s*full_key: (\S+)", text, re.DOTALL):
        return f"{found[2]} has the wrong kind of value: {_describe_type(found[1])}."
    if "OverrideParseException" in type(error).__name__:
        problem = f"the command line cannot be read: {_join_lines(text)}"
        return f"{problem}; quote values with special characters: 'key=\"a=b\"'."
    return _join_lines(text.partition("full_key:")[0])


_OF_RAY = ("executor.workers", "executor.address", "executor.files")
_EXPECTED = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


def _describe_type(text: str) -> str:
    """Return OmegaConf's sentence on a value in the words of a user."""
    found = re.search(r"Value '(.*)' (?:of type '.*' could not be converted to|is not a valid) (\w+)", text, re.DOTALL)
    if found and found[2] in _EXPECTED:
        return f"{found[1]!r} was given, and {_EXPECTED[found[2]]} is expected"
    return f"{_join_lines(text)}; correct it"


def _list_siblings(error: BaseException | None, key: str) -> str:
    """Return the keys that exist where an unknown one was given."""
    for each in walk_chain(error, contexts=True):
        node = getattr(each, "parent_node", None)
        if node is not None and OmegaConf.is_dict(node) and len(node):
            options = sorted(str(name) for name in node if name not in ("_target_", "hydra"))
            if not options:
                return f"{key.rpartition('.')[0]} as it is chosen now has none; leave it out, or choose another"
            return suggest(key.rpartition(".")[2], options)
    return "see --help, or the files in conf/, for those there are"


def _join_lines(text: str) -> str:
    return " ".join(text.split())
