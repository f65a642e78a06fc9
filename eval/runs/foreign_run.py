"""Runs from elsewhere are data: a stored command line is checked before use, and unreadable files end in a sentence.

    check_command(["system=callable", "system.target=os:system"], ["run.resume=latest"], "python eval/run.py", folder)
    # UserError; what it would run is printed before
    with refuse_unreadable(folder):
        summarise(store)                  # UserError in place of a TypeError for a text where a number belongs

A run that was made here (`eval.runs.own_runs`) is resumed as it was started, another one only as the user allows. What
makes this program import, connect, read a variable of the environment or a file of `conf/` is never taken from a folder
from elsewhere, not even with `run.trust=true`: the user types it again.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eval.cli.command import read_option_name
from eval.cli.hydra_compat import CONF, is_mistake
from eval.runs.folder import DATABASE, format_path
from eval.runs.own_runs import is_own_run
from eval.runs.store import RunStore, StoreError
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line, shorten_line

TRUST = "run.trust"
_SHOWN = 100  # options
_SHOWN_CHARS = 300  # of one
# Options that may be taken over from any folder: choices and plain values in some branches
_BRANCHES = "run limits cache log data scorer model splits budget shortlist gate optimizer system[.]agents"
_ALLOWED = re.compile(rf"[a-z_]+|({_BRANCHES.replace(' ', '|')})([.]\w+)+|system[.](?!tools)\w+")
# … without options that say where something is imported, connected or read.
_NEVER = re.compile(r"^hydra$|_$|(^|[._])(targets?|ur[li]|address|host|port|env|headers?|proxy|folder|command|module)$")
_NEVER_VALUES = re.compile(r"[{}\x00-\x1f\x7f]|://|_target_")  # interpolations, addresses
_CONTENT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, AssertionError)


def check_command(command: Iterable[str], given: Sequence[str], program: str, folder: Path) -> None:
    """Check that the user wants the command line of a folder from elsewhere.

    Args:
        command: the stored one.
        given: the options typed now.
        program: that the user started, such as `python eval/run.py`.
        folder: of the run.

    Raises:
        UserError: there is no `run.trust=true`, or some of the options must be typed again.
    """
    stored, typed = list(command), {read_option_name(each) for each in given}
    refused = [each for each in stored if not is_harmless(each) and read_option_name(each) not in typed]
    again = f"type these again if you mean them, for they are never taken over: {_format(refused)}" if refused else ""
    trusts = [each.partition("=")[2].strip().lower() for each in given if read_option_name(each) == TRUST]
    if trusts[-1:] == ["true"]:
        if again:
            raise UserError(f"{format_path(folder)} was made elsewhere, or moved since; {again}.")
        return
    print_line(f"{format_path(folder)} was made elsewhere, or moved since. Resuming it would run:", error=True)
    print_line(f"    {program} {_format(stored)}", error=True)
    raise UserError(
        f"nothing was run; if you mean this command, add {TRUST}=true{f', and {again}' if again else ''}. "
        "To look at the run, no trust is needed."
    )


def is_harmless(override: str) -> bool:
    """Return whether an option can neither import nor contact anything, nor read a variable or a file of its own.

    is_harmless("run.epochs=3"), is_harmless("system.target=os:system")      # True, False
    """
    name, equals, value = override.partition("=")
    name = name.strip().lstrip("+~")
    if not name or name.startswith("-") or not (equals or override.startswith("~")):
        return False  # a flag, or nothing that Hydra takes for an option
    if not _ALLOWED.fullmatch(name) or _NEVER.search(name) or _NEVER_VALUES.search(value):
        return False
    return not (CONF / name).is_dir() or re.fullmatch(r"\w[\w-]*", value.strip()) is not None


def _format(options: Sequence[str]) -> str:
    shown = " ".join(shorten_line(shlex.quote(each), _SHOWN_CHARS) for each in options[:_SHOWN])
    return f"{shown} … and {len(options) - _SHOWN} more" if len(options) > _SHOWN else shown


def is_own_folder(folder: Path) -> bool:
    """Return whether the run in a folder was made here; False if that cannot be read."""
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            return is_own_run(store.read_info().run_id, folder)
    except (StoreError, *_CONTENT):
        return False


@contextmanager
def refuse_unreadable(*folders: Path, is_own: Callable[[Path], bool] = is_own_folder) -> Iterator[None]:
    """Turn errors of reading into a sentence if a run is from elsewhere; in a run of ours they are defects.

    Args:
        folders: of the runs.
        is_own: returns whether one of them was made here.

    Raises:
        UserError: one of the runs was made elsewhere, or moved since, and its content cannot be read.
    """
    try:
        yield
    except _CONTENT as error:
        if is_mistake(error):
            raise
        foreign = next((each for each in folders if not is_own(each)), None)
        if foreign is None:
            raise
        reason = f"{type(error).__name__}: {error}"[:200]
        raise UserError(
            f"{format_path(foreign)} was made elsewhere, or moved since, and cannot be read ({reason})."
        ) from error
