"""Targets in configurations: `package.module:name`, and names for objects in memory."""

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Lock
from types import ModuleType

from mas.runtime.errors import UserError

PREFIX = "in-memory:"  # not the name of a module
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_DIGEST_CHARS = 8
_OBJECTS: dict[str, object] = {}
_LOCK = Lock()


def load_target(target: str, option: str = "system.target") -> object:
    """Import the object that a target names.

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
    for top in ("eval", "mas", "optimize"):  # not packages of these names in the current folder
        importlib.import_module(top)
    folder = str(Path.cwd())
    importlib.invalidate_caches()
    sys.path.insert(0, folder)  # only for now: its files must not replace libraries that load later
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UserError(
            f"{option}: the module {name} cannot be imported ({describe_cause(error)}), neither from the current "
            f"folder {folder} nor as an installed one; start the command in its folder, or correct it."
        ) from error
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)


def describe_cause(error: BaseException) -> str:
    """Return an exception as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextmanager
def name_object(value: object, name: str) -> Iterator[str]:
    """Yield a target that names the object inside the block, with letters, digits and `_` alone."""
    stem = f"{PREFIX}{re.sub(r'[^A-Za-z0-9_]+', '_', name)}{_digest_source(value)}"
    with _LOCK:
        target = next(each for n in count(1) if (each := stem if n == 1 else f"{stem}_{n}") not in _OBJECTS)
        _OBJECTS[target] = value
    try:
        yield target
    finally:
        del _OBJECTS[target]


def is_in_memory(target: object) -> bool:
    return isinstance(target, str) and target.startswith(PREFIX)


def find_object(target: str) -> object:
    """Return the object of a target; UserError: this process has no such object."""
    try:
        return _OBJECTS[target]
    except KeyError as error:
        raise UserError(
            f"{target} is an object of a Python program that is over, and cannot be loaded again; put it into a module "
            "and give package.module:name."
        ) from error


def list_in_memory(config: Mapping[str, object]) -> list[str]:
    """Return the parts of a run's configuration that only memory held, such as `system`."""
    parts = [(name, part) for name, part in config.items() if isinstance(part, Mapping)]
    return [name for name, part in parts if any(is_in_memory(value) for value in part.values())]


def _digest_source(value: object) -> str:
    """Return the beginning of a digest of the code; empty for data, and for code without a source."""
    code = value if inspect.isroutine(value) or inspect.isclass(value) else type(value)
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):
        return ""
    return f"-{hashlib.sha256(source.encode('utf-8', 'replace')).hexdigest()[:_DIGEST_CHARS]}"
