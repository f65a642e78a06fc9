"""All checks that need the project's packages, in the order in which they are told."""

from collections.abc import Iterator
from pathlib import Path

from eval.benchmarks.sample_set import SAMPLE
from eval.cli.hydra_compat import MISTAKES, composed, describe_mistake, is_mistake
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import PARTS, EvalConfig, read_config
from eval.workflows.checks.configuration import dataset, keys, system, whole
from eval.workflows.checks.finding import MISSING, OK, Finding
from eval.workflows.checks.machine import browser, disk, isolation, ocr_program, readers, store
from eval.workflows.checks.models import models
from eval.workflows.checks.tools import tools

NAMED = ("system", "model", "data")  # the parts that have a name


def of_configuration(overrides: list[str], deep: bool = False) -> Iterator[Finding]:
    """What the chosen system, model and data need; `deep`: the tools' services are asked, too."""
    try:
        config = read_config(composed(overrides))
    except (*MISTAKES, ValueError) as error:
        if not is_mistake(error):
            raise
        yield Finding("configuration", MISSING, describe_mistake(error))
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
    yield ocr_program()
