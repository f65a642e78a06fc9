"""First import of every command: a missing package, and a Ctrl-C before it runs, end it in one sentence.

    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start

Only the standard library is used here, since the rest may be missing.
"""

import os
import sys
from types import TracebackType
from typing import NoReturn

from mas.runtime.terminal import print_line

OWN_PACKAGES = ("eval", "mas", "optimize")
USER_ERROR, STOPPED = 1, 3  # as in eval/cli/command.py


def explain_failed_start(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print what ended a command: in a sentence if the user can help it. The text of a page or a model may be in it."""
    if isinstance(error, KeyboardInterrupt):
        _exit("stopped by Ctrl-C.", STOPPED)
    if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] not in OWN_PACKAGES:
        _exit(
            f"error: the package {error.name} is missing in {sys.executable}: run `make setup` once, then start the "
            "command with .venv/bin/python (or after: source .venv/bin/activate).",
            USER_ERROR,
        )
    import traceback  # not before: Ctrl-C is explained from the end of this module on

    print_line("".join(traceback.format_exception(kind, error, trace)).rstrip(), error=True)


def _exit(sentence: str, code: int) -> NoReturn:
    print_line(sentence, error=True)
    os._exit(code)


sys.excepthook = explain_failed_start
