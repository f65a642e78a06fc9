"""From a command line to an exit code: Hydra's composition, and its errors, as this tool's users should see them.

Exit codes: 0 finished · 1 the user's mistake, nothing spent · 2 finished, but some questions failed by error, or the
accuracy is below `run.fail_under` · 3 stopped before the end. Of a multirun, the first that is not 0 in the
order 3, 1, 2.
"""

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import hydra
from dotenv import load_dotenv
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from eval.cli.broken_pipe import survive_broken_pipe
from eval.cli.help_text import register_help
from eval.cli.overrides import check_overrides, read_flags
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.cli.signals import CLOSED, handle_signals
from eval.cli.terminal_text import escape_controls
from mas.runtime.errors import UserError

FINISHED, USER_ERROR, FAILURES, STOPPED = 0, 1, 2, 3
WORST_FIRST = (STOPPED, USER_ERROR, FAILURES)
MISTAKES = (HydraException, OmegaConfBaseException, UserError)

Task = Callable[[DictConfig], int]


class InterruptedRunError(KeyboardInterrupt):
    """Ctrl-C or its like that the run has dealt with; the message, if any, is still to be told."""


def run_command(task: Task, config_name: str, resumed: Callable[[Sequence[str]], list[str]] = list) -> int:
    """Compose the configuration from `conf/` and the command line and hand it to `task`, once for each job.

    Args:
        task: what is done for each job; its result is the exit code.
        config_name: of the file in `conf/`.
        resumed: the command line → the same with that of the run that it goes on with.

    Returns:
        The exit code.
    """
    load_dotenv(PROJECT_ROOT / ".env")
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    register_help()
    codes: list[int] = []
    decorated = hydra.main(config_path=str(PROJECT_ROOT / "conf"), config_name=config_name, version_base="1.3")

    def jobs() -> int:
        try:
            flags = read_flags(sys.argv[1:])
            if flags.config_name is flags.config_path is None:  # else the groups are those of a file that is not ours
                check_overrides(flags.overrides, config_name)
            sys.argv[1:] = resumed(sys.argv[1:])
            _raise_plain_errors()
            decorated(lambda composed: codes.append(_guarded(task, composed)))()
        except SystemExit as end:  # --help and its like; Hydra's 2 for a mistake is 1 here
            return USER_ERROR if end.code else FINISHED
        return FINISHED

    codes.append(run_cli(jobs))
    return next((code for code in WORST_FIRST if code in codes), FINISHED)


def run_cli(command: Callable[[], int]) -> int:
    """The exit code of `command`; a user's mistake in it is told in one sentence.

    SIGTERM and a closed terminal end it as Ctrl-C does; output that cannot be written does not.
    """
    with survive_broken_pipe() as output:
        code = _told(command)
    if output.lost:
        print(f"error: what it printed could not be written: {output.lost.lower()}; make room.", file=sys.stderr)
        return code or FAILURES
    return code


def _told(command: Callable[[], int]) -> int:
    try:
        with handle_signals(
            _interrupt, CLOSED
        ):  # until `eval.execution.stop_controller` takes over for the questions, and again from then on
            return command()
    except InterruptedRunError as interrupt:
        if str(interrupt):
            print(interrupt, file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt as interrupt:
        what = signal_of(interrupt)
        print(f"stopped by {what}; every question that was finished is kept in its run's folder.", file=sys.stderr)
        return STOPPED
    except (*MISTAKES, ValueError) as error:
        if not is_mistake(error):
            raise
        return _complain(error)


def signal_of(interrupt: KeyboardInterrupt) -> str:
    """Which signal it was; Python's own says nothing."""
    return str(interrupt) or "Ctrl-C"


def _interrupt(reason: str) -> NoReturn:
    raise KeyboardInterrupt(reason)


def is_mistake(error: BaseException) -> bool:
    """Whether it is the user's, so that `describe_mistake` has something to say about it."""
    return isinstance(error, MISTAKES) or (isinstance(error, ValueError) and _raised_by_hydra(error))


def _raised_by_hydra(error: BaseException) -> bool:
    """Some mistakes are bare ValueErrors there: `model=1`, or `-sc` for a shell that it does not know."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith("hydra.")


def exit_now(code: int) -> NoReturn:
    """End the process now. A tool that hangs in a thread would keep an ordinary exit waiting for it."""
    for stream in (sys.stdout, sys.stderr):
        if stream:  # None: it was closed before the process began
            stream.flush()
    os._exit(code)


def _raise_plain_errors() -> None:
    """Hydra prints its own errors over several lines and exits, unless it is told to let them through."""
    os.environ["HYDRA_FULL_ERROR"] = "1"


def _guarded(task: Task, composed: DictConfig) -> int:
    """One job; its mistake must not keep the other jobs of a multirun from running."""
    try:
        return task(composed)
    except (UserError, OmegaConfBaseException) as error:
        return _complain(error)


def _complain(error: Exception) -> int:
    print(f"error: {escape_controls(describe_mistake(error))}", file=sys.stderr)
    return USER_ERROR


def get_task_overrides() -> list[str]:
    """The overrides of this job, as they were typed."""
    return list(HydraConfig.get().overrides.task)


def get_typed_list(key: str) -> list[str] | None:
    """The items of `key=[a,b]` as they were typed, before Hydra took `1e10` for a number; None if not given."""
    found = None
    for override in get_task_overrides():
        name, _, value = override.partition("=")
        if name.lstrip("+") == key:
            found = [item.strip().strip("'\"") for item in value.strip().strip("[]").split(",") if item.strip()]
    return found


def describe_mistake(error: BaseException) -> str:
    """One sentence that says what was wrong, what was expected and how to mend it."""
    if isinstance(error, UserError):
        return str(error)
    text = _whole_message(error).partition("Config search path:")[0].partition("See https://hydra.cc")[0]
    if found := re.search(r"Could not find '([^']*)'.*?Available options in '[^']*':\s*(.*)", text, re.DOTALL):
        group, _, name = found[1].rpartition("/")
        return f"{group}={name} is not known; choose one of: {', '.join(found[2].split())}."
    if found := re.search(r"Could not override '([^']*)'\. ?No match in the defaults list", text):
        return f"{found[1]} is not a group of choices of this command; --help lists them."
    if "Config group override must be" in text:
        return "a group of choices was given null, a number, true or false; name a choice, such as model=offline."
    if found := re.search(r"Ambiguous value for argument '(.*?)'\s+1\.", text, re.DOTALL):
        key = found[1].partition("=")[0]
        return (
            f"{found[1]} gives several values; add --multirun for one run after the other, or write '{key}=[a,b]' for "
            f"a list and '{key}=\"a,b\"' for a text."
        )
    if found := re.search(r"Could not delete from config\. '([^']*)' does not exist", text):
        return f"{found[1]} cannot be taken away: it does not exist; --help lists the options."
    if found := re.search(r"Cannot find primary config '([^']*)'", text):
        return f"--config-name {found[1]}: there is no {found[1]}.yaml in conf/; leave --config-name out."
    if found := re.search(r"Key '([^']*)' (?:is not in struct|not in '[^']*').*?full_key: (\S+)", text, re.DOTALL):
        return f"{found[2]} is not an option; {_options_beside(error, found[2])}."
    if found := re.search(r"Missing mandatory value: (\S+)", text):
        return f"{found[1]} has no value; give it on the command line: {found[1]}=…"
    if found := re.search(r"is not a ListConfig.*?full_key: (\S+)", text, re.DOTALL):
        return f"{found[1]} needs a list; give it as {found[1]}=[a,b]."
    if found := re.search(r"(.*?)\s*full_key: (\S+)", text, re.DOTALL):
        return f"{found[2]} has the wrong kind of value: {_one_line(found[1])}; correct it."
    if "OverrideParseException" in type(error).__name__:
        return (
            f"the command line cannot be read: {_one_line(text)}; quote values with special characters: 'key=\"a=b\"'."
        )
    return _one_line(text.partition("full_key:")[0])


def _options_beside(error: BaseException | None, key: str) -> str:
    """The keys that stand where an unknown one was given."""
    while error is not None:
        node = getattr(error, "parent_node", None)
        if node is not None and OmegaConf.is_dict(node) and len(node):
            options = sorted({str(each) for each in node if each not in ("_target_", "hydra")} | _groups_beside(key))
            if not options:
                return f"{key.rpartition('.')[0]} as it is chosen now has none; leave it out, or choose another"
            return f"choose one of: {', '.join(options)}"
        error = error.__cause__ or error.__context__
    return "see --help, or the files in conf/, for those there are"


def _groups_beside(key: str) -> set[str]:
    """For +nope=1 the node is of plain options alone."""
    if "." in key or not HydraConfig.initialized():
        return set()
    return {group for group in map(str, HydraConfig.get().runtime.choices) if group.isidentifier()}


def _whole_message(error: BaseException) -> str:
    parts = [str(error)]
    if error.__cause__ is not None:
        parts.append(_whole_message(error.__cause__))
    return "\n".join(parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())
