"""The chosen configuration as a whole, and the program under test with its prompts."""

from eval.checks.finding import MISSING, OK, Finding
from eval.config import EvalConfig
from mas.errors import UserError


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
        config.check()
    except UserError as error:
        return Finding("run", MISSING, str(error))
    return Finding("run", OK, "the configuration can run")
