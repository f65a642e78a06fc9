"""From `package.module:name` to what the user put there.

    load_target("my_agent:answer")      # the function `answer` of my_agent.py in the current folder

The current folder can be imported from while the target is, and no longer: a file there must not stand in for a library
that the harness loads later.
"""

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mas.errors import UserError

FORM = "package.module:function"
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MAX_NAMES_LISTED = 10


def load_target(target: str) -> Any:
    """
    Raises:
        UserError: it has another form, its module cannot be imported, or there is nothing of that name in it.
    """
    module_name, name = _parts(target)
    found = module = _imported(module_name)
    for attribute in name.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            raise UserError(
                f"system.target={target}: there is no {name} in {module_name} ({_place(module)}); it defines: "
                f"{_defined(module) or 'nothing that can be called'}."
            ) from error
    return found


def _parts(target: str) -> tuple[str, str]:
    module, colon, name = target.partition(":")
    if module.endswith(".py") or "/" in module:
        raise UserError(
            f"system.target={target} names a file; expected {FORM}, the module's name without .py, importable from the "
            "current folder or installed."
        )
    if not colon and "." in target:
        suggestion = ":".join(target.rsplit(".", 1))
        raise UserError(f"system.target={target} has no colon; expected {FORM}: system.target={suggestion}.")
    if not _DOTTED.fullmatch(module) or not _DOTTED.fullmatch(name):
        raise UserError(f"system.target={target} cannot be read; expected {FORM}, such as my_agent:answer.")
    return module, name


def _imported(name: str) -> Any:
    try:
        with _importable(Path.cwd()):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"system.target: there is no module {name}, neither in the current folder {Path.cwd()} nor installed; "
                "start the command where it lies, or correct the name."
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # the user's code: whatever it raises is the user's to mend
        raise _broken(name, error) from error


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    importlib.invalidate_caches()
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(entry)


def _broken(name: str, error: BaseException) -> UserError:
    cause = " ".join(f"{type(error).__name__}: {error}".split())
    return UserError(f"system.target: the module {name} cannot be imported ({cause}); mend it, then start again.")


def _place(module: Any) -> str:
    return getattr(module, "__file__", None) or "a package without a file"


def _defined(module: Any) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return ", ".join(own[:_MAX_NAMES_LISTED])
