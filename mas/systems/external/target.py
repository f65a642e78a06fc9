"""Target of the callable system: from `package.module:name` to a loaded function or `dspy.Module`.

    load_target("my_agent:answer")      # the function `answer` of my_agent.py in the current folder

The current folder is on the import path only while the target is imported: a file there must not replace a library that
the harness loads later.
"""

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
from mas.runtime.errors import UserError

FORM = "package.module:function"
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MAX_NAMES_LISTED = 10


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
    try:
        with _importable(Path.cwd()):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"system.target: there is no module {name}, neither in the current folder {Path.cwd()} nor installed; "
                "start the command in its folder, or correct the name."
            ) from error
        raise _import_error(name, error) from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise _import_error(name, error) from error


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
    cause = " ".join(f"{type(error).__name__}: {error}".split())
    return UserError(f"system.target: the module {name} cannot be imported ({cause}); correct it, then start again.")


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
    is_module: bool  # a dspy.Module
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
    if _is_module(found):
        return _describe_module(target, found)
    if inspect.isclass(found):
        return _describe_module(target, _make_module(target, found))
    if not callable(found):
        raise UserError(f"system.target={target} is a {type(found).__name__}; {EXPECTED}.")
    parameters = _list_parameters(target, found)
    if not parameters:
        return _describe_module(target, _make_module(target, found))
    question, file = _find_how(parameters)
    agent = Agent(target, found, False, question, file)
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


def _is_module(value: object) -> bool:
    """Return True for a `dspy.Module`, without importing dspy: such a target has imported it."""
    module_class = getattr(sys.modules.get("dspy"), "Module", None)
    return module_class is not None and isinstance(value, module_class)


def _make_module(target: str, factory: Callable[[], object]) -> object:
    kind = "a class" if inspect.isclass(factory) else "a function without parameters"
    expected = "expected one that makes a dspy.Module, or a function of the question: def answer(question, file)"
    try:
        made = factory()
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"system.target={target}, {kind}, cannot be called ({cause}); {expected}.") from error
    if not _is_module(made):
        if inspect.iscoroutine(made):
            made.close()  # otherwise Python warns that it was never awaited
        raise UserError(f"system.target={target} is {kind} that makes a {type(made).__name__}; {expected}.")
    return made


def _describe_module(target: str, module: object) -> Agent:
    # From the class: dspy warns when `forward` is taken from an instance.
    method = getattr(type(module), "aforward", None) or getattr(type(module), "forward", None)
    if method is None:
        raise UserError(f"system.target={target} is a dspy.Module without a forward method; give it one.")
    taken, takes_any = _list_inputs(module, _list_parameters(target, method)[1:])
    if "question" not in taken and not takes_any:
        raise UserError(
            f"system.target={target} is a dspy.Module that takes {', '.join(taken) or 'nothing'}; expected an input "
            "named question and, if it likes, one named file."
        )
    return Agent(target, module, True, "name", "name" if "file" in taken or takes_any else "not")


def _list_inputs(module: object, parameters: list[Parameter]) -> tuple[list[str], bool]:
    """Return the names of a module's inputs, and True if it takes any other as well.

    `Predict`, `ChainOfThought` and `ReAct` take `**kwargs`; the inputs that they use are in their signature.
    """
    named = [each.name for each in parameters if each.kind in _NAMED]
    if not any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return named, False
    signature = getattr(module, "signature", None) or getattr(getattr(module, "predict", None), "signature", None)
    fields = getattr(signature, "input_fields", None)
    return (named, True) if fields is None else (list(fields), False)
