"""Send runs that have ended to MLflow, and count what is there: what `eval/sync.py` and `optimize/sync.py` do."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

from dotenv import load_dotenv
from omegaconf import OmegaConf

from eval.cli.command import FINISHED, STOPPED, read_option_name
from eval.cli.hydra_compat import compose_config
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import NoTracking, build_part
from eval.config.tracking import Tracking
from eval.mlflow_export.exporter import ExportKind, format_view_line
from eval.runs.folder import DATABASE, MLFLOW_STATE, RunInUseError, RunLock, is_in_use, is_side
from eval.runs.logs import Log
from eval.runs.own_runs import is_own_folder, refuse_unreadable
from eval.runs.store import StoreError, read_run_info
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line

EXPORTER_SECONDS = 60.0  # for an exporter to send its last batch and end


def run_sync(kind: ExportKind, folder: Path, overrides: Sequence[str]) -> int:
    """Send a run; return the exit code. `overrides`: tracking=… and its options, to send it elsewhere."""
    if other := next((name for name in map(read_option_name, overrides) if not name.startswith("tracking")), None):
        raise UserError(f"{other} is not an option here; give tracking=… and its options only.")
    load_dotenv(PROJECT_ROOT / ".env")
    settings = _read_settings(folder, overrides)
    if isinstance(settings, NoTracking):
        why = "sends nothing" if "tracking=off" in overrides else f"is how {folder.name} was made"
        raise UserError(f"tracking=off {why}; say where it shall go: tracking=local, or tracking=server.")
    settings.check()
    try:
        with refuse_unreadable(folder), _lock_run(folder):
            return _send(kind, folder, settings, overrides)
    except StoreError as error:
        raise UserError(f"{error}.") from error
    except OSError as error:
        print_line(f"stopped: the run's files cannot be written: {error}", error=True)
        return STOPPED


def _read_settings(folder: Path, overrides: Sequence[str]) -> Tracking | NoTracking:
    """Return the run's own tracking settings, changed by the overrides."""
    if any(override.startswith("tracking=") for override in overrides):
        return cast(Tracking | NoTracking, build_part(compose_config(overrides).tracking, "tracking"))
    why, own = "", dict[str, object]()
    if is_side(folder):
        why = "is a side of a tuning run's sealed test and does not say where it belongs"
    elif not is_own_folder(folder):  # its address may be anybody's
        why = "was made elsewhere, or moved since, so the address in it is not used"
    elif not (own := read_run_info(folder).part("tracking")):
        why = "does not say where it belongs"
    if why:
        raise UserError(f"{folder.name} {why}; give tracking=local, or tracking=server.")
    if str(own.get("_target_")).endswith(f".{NoTracking.__name__}"):
        return NoTracking()
    changed = OmegaConf.merge({"tracking": own}, OmegaConf.from_dotlist([*overrides])).tracking
    return cast(Tracking, build_part(changed, "tracking"))


@contextmanager
def _lock_run(folder: Path) -> Iterator[None]:
    """Keep other processes from sending the run meanwhile."""
    if is_in_use(folder / DATABASE):
        raise UserError(f"{folder.name} is still going on, and sends itself; sync it when it has ended.")
    lock = RunLock(folder / MLFLOW_STATE)
    try:  # a run whose time for MLflow was over leaves its exporter behind, which ends in a moment
        lock.take(EXPORTER_SECONDS)
    except RunInUseError as error:
        raise UserError(f"another process is just sending {folder.name} to MLflow; wait for it.") from error
    try:
        yield
    finally:
        lock.release()


def _send(kind: ExportKind, folder: Path, settings: Tracking, overrides: Sequence[str]) -> int:
    log = Log(folder, "mlflow", settings.secrets())
    with closing(log), closing(kind.load()(folder, settings, log)) as export:
        state = export.export(None, shlex.join([*shlex.split(kind.format_sync_command(folder)), *overrides]))
        if state.run_id:
            sent = ", ".join(f"{number} {name}" for name, number in export.sent.items() if number)
            print_line(f"{folder.name}: sent {sent or 'nothing new'}; {state.status}")
    if state.complete:
        print_line(f"in {state.uri}: " + ", ".join(f"{each['mlflow']} {name}" for name, each in state.counts.items()))
    if state.warning:
        print_line(f"warning: {state.warning}", error=True)
    if line := format_view_line(settings, state):
        print_line(line)
    return FINISHED if state.complete else STOPPED
