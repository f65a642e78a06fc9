"""The environment variables that the configuration names; their values are never shown."""

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from eval.benchmarks.dataset import select
from eval.config.evaluation import PARTS, EvalConfig
from eval.runs.store import check_free
from eval.workflows.checks.finding import MISSING, OK, WARNING, Finding
from mas.runtime.errors import UserError


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


HUB = "https://huggingface.co"
TIMEOUT_SECONDS = 5.0


def dataset(config: EvalConfig) -> Iterator[Finding]:
    try:
        config.data.check()
        yield from _fetched(config) if _is_fetched(config.data) else [_local(config)]
    except UserError as error:
        yield Finding("data", MISSING, str(error))


def _is_fetched(data: object) -> bool:
    repo, path = getattr(data, "repo", None), getattr(data, "path", None)
    return bool(repo) and not path and not Path(str(repo)).is_dir()


def _local(config: EvalConfig) -> Finding:
    """Raises UserError if they cannot be read, or none is selected."""
    split = config.data.load(config.split)
    chosen = select(split.samples, config.selection)
    counts = f"{config.data.name}, split {config.split}: {len(split.samples)} questions, {len(chosen)} selected"
    what = "; ".join((counts, *split.notes))
    if split.bad_rows:
        return Finding("data", WARNING, f"{what}, {len(split.bad_rows)} bad rows skipped: {split.bad_rows[0]}")
    return Finding("data", OK, what)


def _fetched(config: EvalConfig) -> Iterator[Finding]:
    yield Finding("data", OK, f"{config.data.repo}, split {config.split}: fetched at the first run, access not tried")
    hub = os.environ.get("HF_ENDPOINT") or HUB
    try:
        with urllib.request.urlopen(urllib.request.Request(hub, method="HEAD"), timeout=TIMEOUT_SECONDS):
            yield Finding("network", OK, f"{hub} answers")
    except urllib.error.HTTPError:
        yield Finding("network", OK, f"{hub} answers")
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", None) or error
        what = f"{hub} does not answer ({cause}): only what was fetched earlier can be used"
        yield Finding("network", WARNING, what, "be online, or have the files: data.path=FOLDER, or data=sample")


def system(config: EvalConfig) -> Finding:
    try:
        prompts = config.check_system()
    except UserError as error:
        return Finding("system", MISSING, str(error))
    texts = f"prompts {prompts.name}" if prompts else "no prompts of ours"
    return Finding("system", OK, f"{config.system.name}, {texts}")


def whole(config: EvalConfig) -> Finding:
    """What a run itself would check first; for when nothing else is missing."""
    try:
        if config.run.dir and not config.run.resume:
            check_free(Path(config.run.dir))
        config.check()
    except UserError as error:
        return Finding("run", MISSING, str(error))
    return Finding("run", OK, "the configuration can run")
