"""The environment variables that the configuration names; their values are never shown."""

import os
from collections.abc import Iterator

from eval.checks.finding import MISSING, OK, WARNING, Finding
from eval.config import PARTS, EvalConfig


def keys(config: EvalConfig) -> Iterator[Finding]:
    """One finding for each `..._env` of the parts; that of the data may be replaced by a token file."""
    parts = {part: getattr(config, part) for part in PARTS}
    if judge := getattr(config.scorer, "judge", None):
        parts["scorer.judge"] = judge
    if not config.needs_model:
        del parts["model"]
    for part, holder in parts.items():
        for field, variable in vars(holder).items():
            if field.endswith("_env") and isinstance(variable, str):
                yield _finding(f"{part}.{field}", variable, WARNING if part == "data" else MISSING)


def _finding(field: str, variable: str, otherwise: str) -> Finding:
    if os.environ.get(variable, "").strip():
        return Finding("key", OK, f"{variable} is set ({field})")
    return Finding("key", otherwise, f"{variable} is not set ({field})", f"put {variable}=… into .env")
