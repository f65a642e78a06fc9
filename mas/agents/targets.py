"""Targets in configurations: from `package.module:name` to the object.

load_target("my_agent:answer")      # the function `answer` of my_agent.py in the current folder
"""

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from mas.agents.in_memory import find_object, is_in_memory
from mas.runtime.errors import UserError

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def load_target(target: str, option: str = "system.target") -> object:
    """Import the object that a target names.

    Raises:
        UserError: it has another form, its module cannot be imported, or there is nothing of that name in it.
    """
    if is_in_memory(target):
        return find_object(target)
    module_name, _, name = target.partition(":")
    if not _DOTTED.fullmatch(module_name) or not _DOTTED.fullmatch(name) or module_name.endswith(".py"):
        raise UserError(
            f"{option}={target} cannot be read; expected package.module:name, such as my_agent:answer for the "
            "function answer in my_agent.py of the current folder."
        )
    value: object = (module := _import_module(module_name, option))
    for attribute in name.split("."):
        try:
            value = getattr(value, attribute)
        except AttributeError as error:
            defined = ", ".join(each for each in vars(module) if not each.startswith("_"))
            raise UserError(f"{option}={target}: {module_name} has no {name}; it has: {defined}.") from error
    return value


def _import_module(name: str, option: str) -> ModuleType:
    for top in ("eval", "mas", "optimize"):  # no package of this name in the current folder takes its place
        importlib.import_module(top)
    try:
        with _importable(Path.cwd()):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UserError(
            f"{option}: the module {name} cannot be imported ({describe_cause(error)}), neither from the current "
            f"folder {Path.cwd()} nor as an installed one; start the command in its folder, or correct it."
        ) from error


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Put a folder on the import path for the block alone: its files must not replace libraries that load later."""
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(str(folder))


def describe_cause(error: BaseException) -> str:
    """Return an exception as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
