"""What a run measured, in names: the head of its summary, and the line above its table.

measured(store.meta(), "night")["split"]      # "val"
title(summary)                                # "gaia · offline · sample/val · prompts baseline · night"
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from eval.reporting.shown_text import one_line
from eval.run_folder.kept_prompts import KEPT

MAX_NAME_CHARS = 60
_DEFAULT_SCORER = "gaia"  # of conf/eval.yaml
_OURS = "eval.scorers."


def measured(meta: Mapping[str, str], folder_name: str) -> dict[str, str | None]:
    """`folder`, `system`, `data`, `split`, `prompts`, `scorer`; null for what the run did not note.

    Args:
        meta: of the run's store.
        folder_name: of the run.
    """
    found = yaml.safe_load(meta.get("config", ""))
    config: Mapping[str, Any] = found if isinstance(found, dict) else {}
    system, data, scorer = (config.get(part) or {} for part in ("system", "data", "scorer"))
    return {
        "folder": folder_name,
        "system": meta.get("system") or system.get("name"),
        "data": data.get("name"),
        "split": config.get("split"),
        "prompts": _prompts(meta, config),
        "scorer": _scorer(str(scorer.get("_target_") or "")),
    }


def title(summary: Mapping[str, Any]) -> str:
    """In one line; a summary that is older than these names has its id alone."""
    data, split, scorer = (summary.get(key) for key in ("data", "split", "scorer"))
    prompts = summary.get("prompts")
    parts = (
        summary.get("system"),
        summary.get("model"),
        f"{data}/{split}" if data and split else data,
        prompts and f"prompts {prompts}",
        f"scorer {scorer}" if scorer and scorer != _DEFAULT_SCORER else None,
        summary.get("folder") or summary["run_id"],
    )
    return " · ".join(one_line(str(part), MAX_NAME_CHARS) for part in parts if part)


def _prompts(meta: Mapping[str, str], config: Mapping[str, Any]) -> str | None:
    """Those it used last; a tuning run's arms have others than their configuration."""
    if KEPT in meta:
        return str(list(json.loads(meta[KEPT]).values())[-1])
    return Path(str(config["prompts"])).name if config.get("prompts") else None


def _scorer(target: str) -> str | None:
    """The word on the command line: `gaia` for `eval.scorers.gaia.GaiaScorer`; of others the whole target."""
    if target.startswith(_OURS):
        return target.removeprefix(_OURS).partition(".")[0]
    return target or None
