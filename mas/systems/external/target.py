"""Targets of systems: from `package.module:name` to a loaded object, and to a function that answers a question.

    load_target("my_agent:answer")      # the function `answer` of my_agent.py in the current folder

The current folder is on the import path only while the target is imported: a file there must not replace a library that
the harness loads later.
"""

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from mas.agents.in_memory import find_object, is_in_memory
from mas.agents.source_digest import OURS, digest_program, note_loaded
from mas.runtime.errors import UserError
from mas.runtime.text import name_type

FORM = "package.module:name"
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MAX_NAMES_LISTED = 10
_PROJECT = Path(__file__).resolve().parents[3]


def load_target(target: str) -> object:
    """Import the object that a target names.

    Raises:
        UserError: it has another form, its module cannot be imported, or there is nothing of that name in it.
    """
    if is_in_memory(target):
        return find_object(target)
    module_name, name = _split_target(target)
    module = _import_module(module_name)
    found: object = module
    for attribute in name.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            place = getattr(module, "__file__", None) or "a package without a file"
            raise UserError(
                f"system.target={target}: there is no {name} in {module_name} ({place}); it defines: "
                f"{_list_callables(module) or 'nothing that can be called'}."
            ) from error
    return found


def compute_source_digest(target: str, *others: str | None) -> str:
    """Return the SHA-256 of the source of a target that has been loaded, and of files that belong to it.

    An object in memory has no source: its name counts.
    """
    if is_in_memory(target):
        return hashlib.sha256(target.encode()).hexdigest()
    return digest_program(target.partition(":")[0], *others)


def _split_target(target: str) -> tuple[str, str]:
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


def _import_module(name: str) -> ModuleType:
    for top in ("eval", "mas", "optimize"):  # no package of this name in the current folder takes its place
        importlib.import_module(top)
    _check_not_hidden(name, name)
    try:
        with _importable(Path.cwd()), note_loaded(name):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        missing = error.name or "" if isinstance(error, ImportError) else ""
        _check_not_hidden(name, missing)
        if isinstance(error, ModuleNotFoundError) and missing and f"{name}.".startswith(f"{missing}."):
            raise UserError(
                f"system.target: there is no module {name}, neither in the current folder {Path.cwd()} nor installed; "
                "start the command in its folder, or correct the name."
            ) from error
        raise UserError(
            f"system.target: the module {name} cannot be imported ({describe_cause(error)}); correct it, then start "
            "again."
        ) from error


def _check_not_hidden(target: str, imported: str) -> None:
    """Refuse a package of the user's that has the name of one of ours: only one of the two can be imported."""
    top = imported.partition(".")[0]
    own = [path for path in (Path.cwd() / top, Path.cwd() / f"{top}.py") if path.exists()]
    if top in OURS and own and own[0].resolve() not in (_PROJECT / top, _PROJECT / f"{top}.py"):
        raise UserError(
            f"system.target: the module {target} needs your {own[0].name} in {own[0].parent}, which has the name of "
            f"the harness's own package {top}; give yours another name."
        )


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


def describe_cause(error: BaseException) -> str:
    """Return an exception as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _list_callables(module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return ", ".join(own[:_MAX_NAMES_LISTED])


EXPECTED = "expected a function of the question and, if it likes, the file: def answer(question, file)"
Arguments = tuple[tuple[object, ...], dict[str, object]]  # positional and named ones

# The first of these that fits is used: a second parameter of any name gets the file if it has no default.
_CALLS: tuple[Callable[[str, Path | None], Arguments], ...] = (
    lambda question, file: ((question,), {"file": file}),
    lambda question, file: ((question,), {}),
    lambda question, file: ((question, file), {}),
    lambda question, file: ((), {"question": question, "file": file}),
    lambda question, file: ((), {"question": question}),
)


@dataclass(frozen=True)
class Agent:
    """A loaded target, and how it takes its inputs."""

    target: str
    value: Any
    arguments: Callable[[str, Path | None], Arguments]


def load_agent(target: str) -> Agent:
    """Load a target that can be called with a question.

    Raises:
        UserError: the target cannot be loaded, or cannot be called with a question.
    """
    found = load_target(target)
    if inspect.isclass(found) and not is_dspy_module(found):
        found = _make_instance(target, found)
    if is_dspy_module(found):
        raise UserError(f"system.target={target} is a dspy.Module; run it with system=dspy system.target={target}.")
    if not callable(found):
        raise UserError(f"system.target={target} is {name_type(found)}; {EXPECTED}.")
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError) as error:
        raise UserError(f"system.target={target} does not say which parameters it has; {EXPECTED}.") from error
    if not signature.parameters:
        raise UserError(
            f"system.target={target} takes no question; {EXPECTED}, or system=dspy for a function that makes a "
            "dspy.Module."
        )
    for arguments in _CALLS:
        positional, named = arguments("", None)
        with suppress(TypeError):
            signature.bind(*positional, **named)
            return Agent(target, found, arguments)
    taken = ", ".join(map(str, signature.parameters.values()))
    raise UserError(f"system.target={target} takes ({taken}), which a question and its file do not fit; {EXPECTED}.")


def is_dspy_module(value: object) -> bool:
    """Return True for a `dspy.Module` or a class of them, without importing dspy: such a target has imported it."""
    module_class = getattr(sys.modules.get("dspy"), "Module", None)
    if module_class is None:
        return False
    return issubclass(value, module_class) if inspect.isclass(value) else isinstance(value, module_class)


def _make_instance(target: str, made_by: type[object]) -> object:
    try:
        return made_by()
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UserError(
            f"system.target={target}, a class, cannot be called ({describe_cause(error)}); {EXPECTED}, or a class "
            "without parameters that has such a __call__."
        ) from error
