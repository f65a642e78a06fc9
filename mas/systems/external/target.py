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
from inspect import Parameter
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

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
            raise UserError(
                f"system.target={target}: there is no {name} in {module_name} ({_describe_place(module)}); it defines: "
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
    _check_not_hidden(name, name)
    try:
        with _importable(Path.cwd()), note_loaded(name):
            module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        _check_not_hidden(name, error.name or "")
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"system.target: there is no module {name}, neither in the current folder {Path.cwd()} nor installed; "
                "start the command in its folder, or correct the name."
            ) from error
        raise _import_error(name, error) from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        if isinstance(error, ImportError):
            _check_not_hidden(name, error.name or "")
        raise _import_error(name, error) from error
    _check_not_hiding(name)
    return module


def _check_not_hidden(target: str, imported: str) -> None:
    """Refuse a package of the user's that has the name of one of ours: only one of the two can be imported."""
    top = imported.partition(".")[0]
    if top not in OURS:
        return
    found = [path for path in (Path.cwd() / top, Path.cwd() / f"{top}.py") if path.exists()]
    if own := [path for path in found if not _is_ours(path, top)]:
        raise _hidden_error(target, own[0])


def _check_not_hiding(target: str) -> None:
    """Refuse a package of the user's that was imported in place of one of ours, which later imports would miss."""
    for top in OURS:
        module = sys.modules.get(top)
        places = list(getattr(module, "__path__", None) or filter(None, [getattr(module, "__file__", None)]))
        if places and not _is_ours(Path(places[0]), top):
            for name in [each for each in sys.modules if each.partition(".")[0] == top]:
                del sys.modules[name]
            raise _hidden_error(target, Path(places[0]))


def _is_ours(path: Path, top: str) -> bool:
    return path.resolve() in (_PROJECT / top, _PROJECT / f"{top}.py")


def _hidden_error(target: str, own: Path) -> UserError:
    return UserError(
        f"system.target: the module {target} needs your {own.name} in {own.parent}, which has the name of the "
        f"harness's own package {own.stem}; give yours another name."
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


def _import_error(name: str, error: BaseException) -> UserError:
    return UserError(
        f"system.target: the module {name} cannot be imported ({describe_cause(error)}); correct it, then start again."
    )


def describe_cause(error: BaseException) -> str:
    """Return an exception as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _describe_place(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "a package without a file"


def _list_callables(module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return ", ".join(own[:_MAX_NAMES_LISTED])


EXPECTED = "expected a function of the question and, if it likes, the file: def answer(question, file)"
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

How = Literal["position", "name", "not"]


@dataclass(frozen=True)
class Agent:
    """A loaded target, and how it takes its inputs."""

    target: str
    value: Any
    question: How
    file: How

    def arguments(self, question: str, file: Path | None) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the positional and the named arguments of the call."""
        given = (("question", self.question, question), ("file", self.file, file))
        positional = tuple(value for _, how, value in given if how == "position")
        return positional, {name: value for name, how, value in given if how == "name"}


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
    parameters = _list_parameters(target, found)
    if not parameters:
        raise UserError(
            f"system.target={target} takes no question; {EXPECTED}, or system=dspy for a function that makes a "
            "dspy.Module."
        )
    question, file = _find_how(parameters)
    agent = Agent(target, found, question, file)
    positional, named = agent.arguments("", None)
    try:
        inspect.signature(found).bind(*positional, **named)
    except TypeError as error:
        raise UserError(
            f"system.target={target} takes ({', '.join(map(str, parameters))}), which a question and its file do not "
            f"fit ({error}); {EXPECTED}."
        ) from error
    return agent


def _find_how(parameters: list[Parameter]) -> tuple[How, How]:
    """Find out how question and file are passed.

    A second parameter of any name gets the file if it has no default; one with a default only if its name is `file`.
    """
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    takes_one = bool(positional) or any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
    question: How = "position" if takes_one else "name"
    others = positional[1:] if positional else []
    if any(each.name == "file" and each.kind in _NAMED and each not in positional[:1] for each in parameters):
        return question, "name"
    if others and others[0].default is Parameter.empty:
        return question, "position"
    return question, "name" if any(each.kind is Parameter.VAR_KEYWORD for each in parameters) else "not"


def _list_parameters(target: str, value: Callable[..., object]) -> list[Parameter]:
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError) as error:
        raise UserError(f"system.target={target} does not say which parameters it has; {EXPECTED}.") from error


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
