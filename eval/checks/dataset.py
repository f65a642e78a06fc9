"""The chosen questions: local ones are read and counted, those of Hugging Face need a token and the network."""

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from eval.checks.finding import MISSING, OK, WARNING, Finding
from eval.config import EvalConfig
from eval.selection import select
from mas.errors import UserError

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
    chosen = select(split.examples, config.selection)
    counts = f"{config.data.name}, split {config.split}: {len(split.examples)} questions, {len(chosen)} selected"
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
