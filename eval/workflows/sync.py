"""Sending a run to MLflow after its end, be it an evaluation or a tuning run: where to, by whom, and until when.

overrides = tracking_overrides(["latest", "tracking=local"])      # ["tracking=local"]
with interruptible():
    check_place(settings, folder.name, overrides)
    with sole_sender(folder, "run.db"):
        ...
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eval.cli.command import InterruptedRunError, signal_of
from eval.config.tracking import NoTracking, Tracking
from eval.runs.folder import RunInUseError, RunLock, in_use
from eval.runs.mlflow_state import STATE
from mas.runtime.errors import UserError


def tracking_overrides(words: Sequence[str]) -> list[str]:
    """Of a command line's words, those that are overrides.

    Raises:
        UserError: one is of something else than tracking.
    """
    overrides = [word for word in words if "=" in word]
    for override in overrides:
        if (option := override.partition("=")[0]).partition(".")[0] != "tracking":
            raise UserError(f"{option} is not an option here; give tracking=… and its options only.")
    return overrides


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C inside ends the sending, and says what that means."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise InterruptedRunError(
            f"stopped by {signal_of(interrupt)}; what was sent stays in MLflow, and the same command sends the rest."
        ) from interrupt


def check_place(settings: Tracking | NoTracking, run: str, overrides: Sequence[str]) -> None:
    """
    Raises:
        UserError: the run goes nowhere, or to a place that cannot be.
    """
    if isinstance(settings, NoTracking):
        why = "sends nothing" if "tracking=off" in overrides else f"is how {run} was made"
        raise UserError(f"tracking=off {why}; say where it shall go: tracking=local, or tracking=server.")
    settings.check()


@contextmanager
def sole_sender(folder: Path, written: str) -> Iterator[None]:
    """Nobody else sends the run meanwhile; `written`: the file beside which the run's own lock lies.

    Raises:
        UserError: it is still going on, somebody else is sending it, or its folder cannot be written.
    """
    if in_use(folder / written):
        raise UserError(f"{folder.name} is still going on, and sends itself; sync it when it has ended.")
    lock = RunLock(folder / STATE)
    try:
        lock.take()
    except RunInUseError as error:
        raise UserError(f"another process is just sending {folder.name} to MLflow; wait for it.") from error
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error}); sync a copy of it, or mend its permissions.") from error
    try:
        yield
    finally:
        lock.release()
