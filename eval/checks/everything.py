"""All checks that need the project's packages, in the order in which they are told."""

from collections.abc import Iterator
from pathlib import Path

from eval.benchmarks.sample_set import SAMPLE
from eval.checks.dataset import dataset
from eval.checks.disk import disk
from eval.checks.finding import MISSING, OK, Finding
from eval.checks.keys import keys
from eval.checks.model import models
from eval.checks.programs import browser, ocr
from eval.checks.readers import readers
from eval.checks.sandbox import isolation
from eval.checks.store import store
from eval.checks.system import system, whole
from eval.checks.tools import tools
from eval.command import MISTAKES, is_mistake, sentence
from eval.composing import composed
from eval.config import PARTS, EvalConfig, read_config
from eval.paths import OUTPUTS

NAMED = ("system", "model", "data")  # the parts that have a name


def of_configuration(overrides: list[str], deep: bool = False) -> Iterator[Finding]:
    """What the chosen system, model and data need; `deep`: the tools' services are asked, too."""
    try:
        config = read_config(composed(overrides))
    except (*MISTAKES, ValueError) as error:
        if not is_mistake(error):
            raise
        yield Finding("configuration", MISSING, sentence(error))
        return
    chosen = ", ".join(f"{part}={getattr(getattr(config, part), 'name', '')}" for part in PARTS if part in NAMED)
    yield Finding("configuration", OK, chosen)
    missing = False
    for finding in _of_parts(config, deep):
        missing |= finding.state == MISSING
        yield finding
    if not missing:
        yield whole(config)


def _of_parts(config: EvalConfig, deep: bool) -> Iterator[Finding]:
    yield system(config)
    yield from keys(config)
    yield from models(config)
    yield from dataset(config)
    yield from tools(config, deep)
    yield disk(Path(config.run.dir) if config.run.dir else OUTPUTS)
    yield store(config.tracking)


def of_machine() -> Iterator[Finding]:
    """What tools may use; nothing of it keeps a run from running."""
    yield from readers(SAMPLE)
    yield isolation()
    yield browser()
    yield ocr()
