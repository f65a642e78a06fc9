"""Send to MLflow what is missing there of a tuning run, and count what is there; a second time changes nothing.

python optimize/sync.py latest
python optimize/sync.py my_run tracking=server tracking.uri=https://mlflow.example.org       # … to another MLflow

Where a run belongs, it knows itself; `tracking=…` and its options name another place. The sealed test's answers are
runs of their own: `python eval/sync.py RUN_FOLDER/sealed/winner`.

Exit codes: 0 everything is in MLflow · 1 your mistake, told in one sentence, nothing sent · 3 MLflow does not have
everything: it could not be reached, or refused something.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.cli.arguments import Parser
from eval.cli.command import FINISHED, STOPPED, exit_now, run_cli
from eval.cli.hydra_compat import MISTAKES
from eval.cli.paths import PROJECT_ROOT
from eval.workflows.sync import check_place, interruptible, sole_sender, tracking_overrides
from mas.runtime.errors import UserError
from optimize.session.run_files import MARKER, find_tuning_run


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    description = "Send to MLflow what is missing there of a tuning run, and count what is there."
    usage = "python optimize/sync.py RUN [tracking=local|server] [tracking.option=value ...]"
    parser = Parser(usage=usage, description=description, allow_abbrev=False)
    parser.add_argument("words", nargs="*", metavar="RUN", help="latest, a name under outputs/optimize, or its folder")
    given = parser.parse_args(arguments)
    given.overrides = tracking_overrides(given.words)
    runs = [word for word in given.words if "=" not in word]
    if len(runs) != 1:
        raise UserError(f"name one tuning run; {usage}.")
    given.run = runs[0]
    return given


def task(arguments: list[str]) -> int:
    from dotenv import load_dotenv

    given = read_arguments(arguments)
    load_dotenv(PROJECT_ROOT / ".env")
    with interruptible():
        return synced(find_tuning_run(given.run), given.overrides)


def synced(folder: Path, overrides: Sequence[str]) -> int:
    """Send one tuning run; the exit code.

    Raises:
        UserError: it is going on, somebody else is sending it, or it does not say where it belongs.
    """
    from optimize.mlflow_export.folder import read_tuning

    settings = _settings(folder, read_tuning(folder).config, overrides)
    check_place(settings, folder.name, overrides)
    with sole_sender(folder, MARKER):
        return _sent(folder, settings)


def _settings(folder: Path, config: dict[str, Any], overrides: Sequence[str]) -> Any:
    """The run's own tracking settings, changed by the overrides."""
    from omegaconf import OmegaConf

    from eval.cli.hydra_compat import composed
    from eval.config.evaluation import build_part

    if any(override.startswith("tracking=") for override in overrides):
        return build_part(composed(overrides).tracking, "tracking")
    own = config.get("tracking")
    if not own:
        raise UserError(f"{folder.name} does not say where it belongs; give tracking=local, or tracking=server.")
    merged = OmegaConf.merge({"tracking": own}, OmegaConf.from_dotlist(list(overrides)))
    return build_part(merged.tracking, "tracking")


def _sent(folder: Path, settings: Any) -> int:
    from eval.mlflow_export.exporter_launcher import format_view_line
    from eval.mlflow_export.exporter_process import in_words
    from eval.mlflow_export.pipe import ExportRequest
    from eval.runs.mlflow_state import write_state
    from optimize.mlflow_export.send import send, state_of

    redact = ExportRequest({}, local=False, secrets=_secrets(folder, settings)).redact
    try:
        sent = send(folder, settings, redact=redact)
        write_state(folder, state_of(sent, settings))
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - MLflow's failures are of any kind, and are told
        again = f"try again with: python optimize/sync.py {folder.name}"
        print(f"warning: {redact(in_words(error))}; {again}", file=sys.stderr)
        return STOPPED
    there = len(set(sent.proposals) & sent.children.keys())
    print(f"{folder.name}: {sent.status}, {there} of {len(sent.proposals)} proposals in {settings.shown_uri}")
    if line := format_view_line(settings, sent.link):
        print(line)
    return FINISHED if sent.complete else STOPPED


def _secrets(folder: Path, settings: Any) -> list[str]:
    """Of the run's configuration and of where it goes, longest first."""
    from omegaconf import OmegaConf

    from optimize.mlflow_export.folder import read_tuning
    from optimize.session.config import read_config

    try:
        own = read_config(OmegaConf.create(read_tuning(folder).config)).base.secrets()
    except (*MISTAKES, ValueError):  # of another version of this program; what lies there was written without secrets
        own = []
    return sorted({*own, *settings.secrets()}, key=len, reverse=True)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
