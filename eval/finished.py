"""A finished run that is resumed: it is shown again, and neither its data nor its model is loaded for that.

shown_again(config, resolved)      # 0; None if something is left to do
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.config import EvalConfig
from eval.resuming import check_unchanged, run_to_resume, samples_left
from eval.runs import DATABASE
from eval.store import RunStore, StoreError
from mas.errors import UserError
from mas.prompts import digest


def shown_again(config: EvalConfig, resolved: Mapping[str, Any]) -> int | None:
    """Show the run that `run.resume` names, if it is complete and still the same.

    Returns:
        Its exit code; None: there is something to run, or to write.

    Raises:
        UserError: there is no such run, or it was started otherwise.
    """
    folder = run_to_resume(str(config.run.resume))
    summary = _summary(folder)
    if summary is None or not _complete(folder, config, resolved):
        return None
    from rich.console import Console

    from eval.outcome import exit_code, show

    console = Console()
    console.print(f"{folder.name} is finished; nothing is left to run.", markup=False, highlight=False)
    show(summary, folder, console)
    return exit_code(summary, config.run.fail_under, console)


def _summary(folder: Path) -> dict[str, Any] | None:
    try:
        summary: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return None if summary.get("stopped") else summary


def _complete(folder: Path, config: EvalConfig, resolved: Mapping[str, Any]) -> bool:
    prompts = config.read_prompts()
    digests = {"prompts_sha256": digest(prompts) if prompts else ""}
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            meta = store.meta()
            changed = check_unchanged(meta, resolved, digests, config.run.allow_config_change)
            ids = [planned.id for planned in store.planned()]
            left = samples_left(ids, config.run.epochs, store.keys(), config.run.retry_errors)
    except StoreError as error:
        raise UserError(f"{error}.") from error
    return meta.get("finished") == "true" and not changed and not left
