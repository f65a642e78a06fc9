"""Runs from elsewhere are data: a stored command line is shown and never used, and unreadable files end in a sentence.

    refuse_command(["system=callable", "system.target=os:system"], [], "python eval/run.py", folder)
    # UserError; what it would run is printed before
    with refuse_unreadable(folder):
        summarise(store)                  # UserError in place of a TypeError for a text where a number belongs

A run that was made here (`eval.runs.own_runs`) is resumed as it was started. What makes this program import, connect,
read a variable of the environment or a file of `conf/` is never taken from a folder from elsewhere: the user types it.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eval.cli.command import read_option_name
from eval.cli.mistakes import is_mistake
from eval.runs.folder import DATABASE, format_path
from eval.runs.own_runs import is_own_run
from eval.runs.store import RunStore, StoreError
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line, shorten_line

_SHOWN = 100  # options
_SHOWN_CHARS = 300  # of one
_CONTENT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, AssertionError)


def refuse_command(command: Sequence[str], given: Sequence[str], program: str, folder: Path) -> None:
    """Show the command line of a folder from elsewhere, unless the user has typed all of its options again.

    Args:
        command: the stored one.
        given: the options typed now, apart from those of a session alone, such as the one that names the run.
        program: that the user started, such as `python eval/run.py`.
        folder: of the run.

    Raises:
        UserError: an option is not typed again, or none is typed.
    """
    typed = set(map(read_option_name, given))
    if typed and all(read_option_name(each) in typed for each in command):
        return
    shown = " ".join(shorten_line(shlex.quote(each), _SHOWN_CHARS) for each in command[:_SHOWN]) or "(no options)"
    more = f" … and {len(command) - _SHOWN} more" if len(command) > _SHOWN else ""
    print_line(f"{format_path(folder)} was made elsewhere, or moved since. It was started with:", error=True)
    print_line(f"    {program} {shown}{more}", error=True)
    wanted = "these options, type them again" if command else "that, type an option of yours"
    raise UserError(
        f"nothing was run; if you mean {wanted} next to the one that names the run. To look at the run, none are "
        "needed."
    )


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
