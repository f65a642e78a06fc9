"""Targets of systems: from `package.module:name` to a loaded object, to a function that answers, or to a `dspy.Module`.

    load_target("my_agent:answer")      # the function `answer` of my_agent.py in the current folder
    load_agent("my_agent:answer").arguments("How many?", None)      # (("How many?",), {})

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
from typing import TYPE_CHECKING, Any, TypeGuard

from mas.agents.in_memory import find_object, is_in_memory
from mas.agents.source_digest import digest_program
from mas.runtime.errors import UserError
from mas.runtime.text import name_type

if TYPE_CHECKING:
    import dspy

EXPECTED_AGENT = "expected a function of the question and, if it likes, the file: def answer(question, file)"
EXPECTED_MODULE = (
    "expected a dspy.Module: its class, an instance, or a function without parameters that returns one; a function "
    "that answers is run with system=callable"
)
Arguments = tuple[tuple[object, ...], dict[str, object]]  # positional and named ones
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

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
    """A loaded function, and how it takes its inputs."""

    target: str
    value: Any
    arguments: Callable[[str, Path | None], Arguments]


def load_target(target: str) -> object:
    """Import the object that a target names.

    Raises:
        UserError: it has another form, its module cannot be imported, or there is nothing of that name in it.
    """
    if is_in_memory(target):
        return find_object(target)
    module_name, _, name = target.partition(":")
    if not _DOTTED.fullmatch(module_name) or not _DOTTED.fullmatch(name) or module_name.endswith(".py"):
        raise UserError(
            f"system.target={target} cannot be read; expected package.module:name, such as my_agent:answer for the "
            "function answer in my_agent.py of the current folder."
        )
    value: object = (module := _import_module(module_name))
    for attribute in name.split("."):
        try:
            value = getattr(value, attribute)
        except AttributeError as error:
            defined = ", ".join(each for each in vars(module) if not each.startswith("_"))
            raise UserError(f"system.target={target}: {module_name} has no {name}; it has: {defined}.") from error
    return value


def _import_module(name: str) -> ModuleType:
    for top in ("eval", "mas", "optimize"):  # no package of this name in the current folder takes its place
        importlib.import_module(top)
    try:
        with _importable(Path.cwd()):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UserError(
            f"system.target: the module {name} cannot be imported ({describe_cause(error)}), neither from the current "
            f"folder {Path.cwd()} nor as an installed one; start the command in its folder, or correct it."
        ) from error


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
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


def compute_source_digest(target: str, *others: str | None) -> str:
    """Return the SHA-256 of the source of a target that has been loaded, and of files that belong to it.

    An object in memory has no source: its name counts.
    """
    if is_in_memory(target):
        return hashlib.sha256(target.encode()).hexdigest()
    return digest_program(target.partition(":")[0], *others)


def load_agent(target: str) -> Agent:
    """Load a target that can be called with a question.

    Raises:
        UserError: the target cannot be loaded, or cannot be called with a question.
    """
    value = load_target(target)
    if inspect.isclass(value) and not is_dspy_module(value):
        value = _make_instance(target, value, f"{EXPECTED_AGENT}, or a class whose instances have such a __call__")
    if is_dspy_module(value):
        raise UserError(f"system.target={target} is a dspy.Module; run it with system=dspy system.target={target}.")
    if not callable(value):
        raise UserError(f"system.target={target} is {name_type(value)}; {EXPECTED_AGENT}.")
    for arguments in _CALLS:
        positional, named = arguments("", None)
        with suppress(TypeError, ValueError):
            inspect.signature(value).bind(*positional, **named)
            return Agent(target, value, arguments)
    raise UserError(
        f"system.target={target} cannot be called with a question; {EXPECTED_AGENT}, or system=dspy for a function "
        "that makes a dspy.Module."
    )


def load_dspy_module(target: str) -> "dspy.Module":
    """Load a target that is a `dspy.Module`, or that makes one.

    Raises:
        UserError: the target cannot be loaded, or is something else.
    """
    value = load_target(target)
    if inspect.isclass(value) or inspect.isroutine(value):
        value = _make_instance(target, value, EXPECTED_MODULE)
    if not is_dspy_module(value):
        raise UserError(f"system.target={target} is {name_type(value)}; {EXPECTED_MODULE}.")
    return value


def is_dspy_module(value: object) -> "TypeGuard[dspy.Module]":
    """Return True for a `dspy.Module` or a class of them, without importing dspy: such a target has imported it."""
    module_class = getattr(sys.modules.get("dspy"), "Module", None)
    if module_class is None:
        return False
    return issubclass(value, module_class) if inspect.isclass(value) else isinstance(value, module_class)


def _make_instance(target: str, made_by: Callable[[], object], expected: str) -> object:
    try:
        return made_by()
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UserError(
            f"system.target={target} cannot be called without arguments ({describe_cause(error)}); {expected}."
        ) from error
