"""Reading runs from elsewhere: whatever is in their files, a command ends with a sentence.

with refuse_unreadable(folder):
    summarise(store)                  # UserError in place of a TypeError for a text where a number belongs
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eval.cli.hydra_compat import is_mistake
from eval.cli.paths import format_path
from eval.runs.folder import DATABASE
from eval.runs.store import RunStore, StoreError
from mas.runtime.errors import UserError

_CONTENT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, AssertionError)


def is_run_signed(folder: Path) -> bool:
    """Return whether this installation made the run; False if that cannot be read."""
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            return store.is_signed()
    except StoreError:
        return False


@contextmanager
def refuse_unreadable(*folders: Path, is_signed: Callable[[Path], bool] = is_run_signed) -> Iterator[None]:
    """Turn errors of reading into a sentence if a run is not signed; in a run of ours they are defects.

    Args:
        folders: of the runs.
        is_signed: returns whether this installation made one of them.

    Raises:
        UserError: one of the runs was made elsewhere, or changed since, and its content cannot be read.
    """
    try:
        yield
    except _CONTENT as error:
        if is_mistake(error):
            raise
        foreign = next((each for each in folders if not is_signed(each)), None)
        if foreign is None:
            raise
        reason = f"{type(error).__name__}: {error}"[:200]
        raise UserError(
            f"{format_path(foreign)} was made elsewhere, or changed since, and cannot be read ({reason})."
        ) from error
