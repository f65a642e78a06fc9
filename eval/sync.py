"""Send to MLflow what is missing there of a run, and count what is there; a second time changes nothing.

python eval/sync.py latest
python eval/sync.py my_run tracking=server tracking.uri=https://mlflow.example.org       # … to another MLflow
python eval/sync.py --all                                                       # every run that is not complete there

Where a run belongs, it knows itself; `tracking=…` and its options name another place.

Exit codes: 0 everything is in MLflow · 1 your mistake, told in one sentence, nothing sent · 3 MLflow does not have
everything: it could not be reached, or refused something.
"""

import argparse
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval.cli.arguments import Parser
from eval.cli.command import FINISHED, STOPPED, USER_ERROR, WORST_FIRST, exit_now, run_cli
from eval.cli.hydra_compat import MISTAKES, describe_mistake
from eval.cli.paths import PROJECT_ROOT
from eval.runs.folder import DATABASE, all_runs, find_run
from eval.runs.store import read_run_info
from eval.workflows.sync import check_place, interruptible, sole_sender, tracking_overrides
from mas.runtime.errors import UserError


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = "Send to MLflow what is missing there of a run, and count what is there."
    usage = "python eval/sync.py RUN | --all [tracking=local|server] [tracking.option=value ...]"
    parser = Parser(usage=usage, description=description, allow_abbrev=False)
    parser.add_argument(
        "--all", action="store_true", help="every run under outputs/eval that is not complete in MLflow"
    )
    parser.add_argument("words", nargs="*", metavar="RUN", help="latest, a name under outputs/eval, or a run's folder")
    given = parser.parse_args(arguments)
    given.overrides = tracking_overrides(given.words)
    runs = [word for word in given.words if "=" not in word]
    if len(runs) != (0 if given.all else 1):
        raise UserError(f"name one run, or give --all; {usage}.")
    given.run = runs[0] if runs else None
    return given


def task(arguments: list[str]) -> int:
    from dotenv import load_dotenv

    given = read_arguments(arguments)
    load_dotenv(PROJECT_ROOT / ".env")
    with interruptible():
        return _all_synced(given)


def _all_synced(given: argparse.Namespace) -> int:
    if not given.all:
        return synced(find_run(given.run), given.overrides)
    folders = [folder for folder in all_runs() if _is_to_be_sent(folder, given.overrides)]
    codes = [_one_of_many(folder, given.overrides) for folder in folders]
    print(f"{len(folders)} runs were not complete in MLflow; {codes.count(FINISHED)} of them are now")
    return next((code for code in WORST_FIRST if code in codes), FINISHED)


def _is_to_be_sent(folder: Path, overrides: Sequence[str]) -> bool:
    """Complete means: there, where the run belongs; a run that is still going on sends itself."""
    from eval.config.tracking import NoTracking
    from eval.runs.folder import in_use
    from eval.runs.mlflow_state import read_state

    if in_use(folder / DATABASE):
        return False
    try:
        settings = _settings(folder, overrides)
    except MISTAKES:
        return True  # to be told
    state = read_state(folder)
    if isinstance(settings, NoTracking):
        return False
    there = (settings.shown_uri, settings.experiment)
    if state is None or not state.complete or (state.uri, state.experiment) != there:
        return True
    return state.counts.get("traces", {}).get("store") != _rows(folder)


def _rows(folder: Path) -> int:
    """How many records the run has by now: a session whose sending died at once leaves the word of the one before."""
    from eval.runs.store import RunStore, StoreError

    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            return len(store.finished_keys())
    except StoreError as error:
        raise UserError(f"{error}.") from error


def _one_of_many(folder: Path, overrides: Sequence[str]) -> int:
    try:
        return synced(folder, overrides)
    except MISTAKES as error:
        print(f"error: {folder.name}: {describe_mistake(error)}", file=sys.stderr)
        return USER_ERROR


def synced(folder: Path, overrides: Sequence[str]) -> int:
    """Send one run; the exit code.

    Raises:
        UserError: it is going on, somebody else is sending it, it does not say where it belongs, or is elsewhere there.
    """
    settings = _settings(folder, overrides)
    check_place(settings, folder.name, overrides)
    with sole_sender(folder, DATABASE):
        return _sent(folder, settings)


def _settings(folder: Path, overrides: Sequence[str]) -> Any:
    """The run's own tracking settings, changed by the overrides."""
    from omegaconf import OmegaConf

    from eval.cli.hydra_compat import composed
    from eval.config.evaluation import build_part
    from eval.config.tracking import NoTracking
    from eval.runs.mlflow_state import read_state, rebuild_tracking

    if any(override.startswith("tracking=") for override in overrides):
        return build_part(composed(overrides).tracking, "tracking")
    own = read_run_info(folder).part("tracking")
    if str(own.get("_target_")).endswith(f".{NoTracking.__name__}"):
        state = read_state(folder)
        if state is None or not state.run_id:
            return NoTracking()
        place = rebuild_tracking(state)  # resumed with tracking=off
        own = {"_target_": f"{type(place).__module__}.{type(place).__qualname__}", **asdict(place)}
    merged = OmegaConf.merge({"tracking": own}, OmegaConf.from_dotlist(list(overrides)))
    return build_part(merged.tracking, "tracking")


def _sent(folder: Path, settings: Any) -> int:
    from eval.mlflow_export.export import Export
    from eval.mlflow_export.exporter_launcher import format_view_line
    from eval.mlflow_export.exporter_process import Exporter
    from eval.mlflow_export.pipe import FINISHED as ENDED
    from eval.mlflow_export.pipe import ExportRequest, RunEnd
    from eval.runs.logs import open_log
    from eval.runs.mlflow_state import read_link

    handover = ExportRequest({}, local=False, secrets=_secrets(folder, settings))
    try:
        _complete_files(folder)
        log, file = open_log(folder, "mlflow", handover.secrets)
    except OSError as error:
        print(f"stopped: the run's files cannot be written: {error}", file=sys.stderr)
        return STOPPED
    end = RunEnd(io.StringIO(f"{ENDED}\n"))
    end.over.wait()
    export = Export(folder, settings, handover.redact)
    try:
        _open(export)
        # As long as MLflow takes something: `tracking.wait_seconds` is how long a run waits, and this is no run.
        state = Exporter(export, end, math.inf, log, live=False).run()
    except OSError as error:
        print(f"stopped: the run's files cannot be written: {error}", file=sys.stderr)
        return STOPPED
    finally:
        export.close()
        file.close()
    _tell(folder, export.sent, state)
    if line := format_view_line(settings, read_link(folder)):
        print(line)
    return FINISHED if state.complete else STOPPED


def _open(export: Any) -> None:
    """Only to hear of a mistake of the user's; MLflow's failures are the exporter's business."""
    try:
        _ = export.run
    except UserError:
        raise
    except Exception:  # noqa: BLE001 - the exporter meets it again, and tells
        return


def _tell(folder: Path, sent: Any, state: Any) -> None:
    news = ", ".join(f"{number} {name}" for name, number in sent._asdict().items()) if sent.traces else "nothing new"
    print(f"{folder.name}: sent {news}")
    if state.complete:
        print(f"in {state.uri}: " + ", ".join(f"{each['mlflow']} {name}" for name, each in state.counts.items()))
    if state.warning:
        print(f"warning: {state.warning}", file=sys.stderr)


def _secrets(folder: Path, settings: Any) -> list[str]:
    """Of the run's configuration and of where it goes, longest first."""
    from omegaconf import OmegaConf

    from eval.config.evaluation import read_config

    try:
        own = read_config(OmegaConf.create(read_run_info(folder).config)).secrets()
    except MISTAKES:  # made by another version of this program; what is stored was redacted when it was made
        own = []
    return sorted({*own, *settings.secrets()}, key=len, reverse=True)


def _complete_files(folder: Path) -> None:
    """A run whose process was killed has written none of its files."""
    from eval.reports.from_store import write_reports
    from eval.runs.store import RunStore, StoreError

    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            if store.read_state().finished is not True or not (folder / "summary.json").is_file():
                write_reports(folder, store)
    except StoreError as error:
        raise UserError(f"{error}.") from error


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
