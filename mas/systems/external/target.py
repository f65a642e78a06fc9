"""From `package.module:name` to what the user put there.

    load_target("my_agent:answer")      # the function `answer` of my_agent.py in the current folder

The current folder can be imported from while the target is, and no longer: a file there must not stand in for a library
that the harness loads later.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal

from mas.runtime.errors import UserError

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


EXPECTED = "expected a function of the question and, if it likes, the file: def answer(question, file)"
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

How = Literal["position", "name", "not"]


@dataclass(frozen=True)
class Agent:
    """A loaded target; `value` is what is called."""

    target: str
    value: Any
    is_module: bool  # a dspy.Module
    question: How
    file: How

    def arguments(self, question: str, file: Path | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and named arguments of the call."""
        given = (("question", self.question, question), ("file", self.file, file))
        positional = tuple(value for _, how, value in given if how == "position")
        return positional, {name: value for name, how, value in given if how == "name"}


def load_agent(target: str) -> Agent:
    """
    Raises:
        UserError: the target cannot be loaded, or cannot be called with a question.
    """
    found = load_target(target)
    if _is_module(found):
        return _module_agent(target, found)
    if not callable(found):
        raise UserError(f"system.target={target} is a {type(found).__name__}; {EXPECTED}.")
    if inspect.isclass(found):
        return _module_agent(target, _made(target, found))
    parameters = _parameters(target, found)
    if not parameters:
        return _module_agent(target, _made(target, found))
    question, file = _how(parameters)
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


def _how(parameters: list[Parameter]) -> tuple[How, How]:
    """A second parameter of any name gets the file if it must be given; one with a default only if it is called so."""
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    takes_one = bool(positional) or any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
    question: How = "position" if takes_one else "name"
    others = positional[1:] if positional else []
    if any(each.name == "file" and each.kind in _NAMED and each not in positional[:1] for each in parameters):
        return question, "name"
    if others and others[0].default is Parameter.empty:
        return question, "position"
    return question, "name" if any(each.kind is Parameter.VAR_KEYWORD for each in parameters) else "not"


def _parameters(target: str, value: Any) -> list[Parameter]:
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError) as error:
        raise UserError(f"system.target={target} does not say which parameters it has; {EXPECTED}.") from error


def _is_module(value: Any) -> bool:
    """Without importing dspy: a target that is one of its modules has done so."""
    module_class = getattr(sys.modules.get("dspy"), "Module", None)
    return module_class is not None and isinstance(value, module_class)


def _made(target: str, factory: Any) -> Any:
    kind = "a class" if inspect.isclass(factory) else "a function without parameters"
    expected = "expected one that makes a dspy.Module, or a function of the question: def answer(question, file)"
    try:
        made = factory()
    except (Exception, SystemExit) as error:  # the user's code: whatever it raises is the user's to mend
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"system.target={target}, {kind}, cannot be called ({cause}); {expected}.") from error
    if not _is_module(made):
        if inspect.iscoroutine(made):
            made.close()  # else Python would warn that nobody waited for it
        raise UserError(f"system.target={target} is {kind} that makes a {type(made).__name__}; {expected}.")
    return made


def _module_agent(target: str, module: Any) -> Agent:
    # Of the class: dspy warns whoever takes `forward` from an instance.
    method = getattr(type(module), "aforward", None) or getattr(type(module), "forward", None)
    if method is None:
        raise UserError(f"system.target={target} is a dspy.Module without a forward method; give it one.")
    taken, takes_any = _inputs(module, _parameters(target, method)[1:])
    if "question" not in taken and not takes_any:
        raise UserError(
            f"system.target={target} is a dspy.Module that takes {', '.join(taken) or 'nothing'}; expected an input "
            "named question and, if it likes, one named file."
        )
    return Agent(target, module, True, "name", "name" if "file" in taken or takes_any else "not")


def _inputs(module: Any, parameters: list[Parameter]) -> tuple[list[str], bool]:
    """Names of a module's inputs, and whether it takes any other as well.

    `Predict`, `ChainOfThought` and `ReAct` take `**kwargs`; what they can use stands in their signature.
    """
    named = [each.name for each in parameters if each.kind in _NAMED]
    if not any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return named, False
    signature = getattr(module, "signature", None) or getattr(getattr(module, "predict", None), "signature", None)
    fields = getattr(signature, "input_fields", None)
    return (named, True) if fields is None else (list(fields), False)
