"""Targets of systems: from `package.module:name` to a function, or a `dspy.Module` and its fields."""

import hashlib
import inspect
import json
import sys
import typing
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from mas.agents.source_digest import digest_program
from mas.agents.targets import describe_cause, is_in_memory, load_target
from mas.runtime.errors import UserError
from mas.runtime.text import name_type

if TYPE_CHECKING:
    import dspy

EXPECTED_AGENT = "expected a function of the question and, if it likes, the file: def answer(question, file)"
EXPECTED_MODULE = (
    "expected a dspy.Module: its class, an instance, or a function without parameters that returns one; a function "
    "that answers is run with system=callable"
)
# The first that fits is used: a second parameter of any name gets the file if it has no default.
_CALLS: tuple[Callable[[str, Path | None], tuple[tuple[object, ...], dict[str, object]]], ...] = (
    lambda question, file: ((question,), {"file": file}),
    lambda question, file: ((question,), {}),
    lambda question, file: ((question, file), {}),
    lambda question, file: ((), {"question": question, "file": file}),
    lambda question, file: ((), {"question": question}),
)

SIDE_OUTPUTS = ("reasoning", "trajectory")  # of dspy.ChainOfThought and dspy.ReAct; never the answer
USUAL_ANSWERS = ("answer", "final_answer")
_SELF = "self"  # DSPy's name of the only predictor of a program that is one itself


@dataclass(frozen=True)
class Agent:
    """A loaded function."""

    call: Callable[[str, Path | None], Any]  # with the question and the file
    is_async: bool


def compute_source_digest(target: str, *others: str | None) -> str:
    """Return the SHA-256 of the source of a loaded target, and of files that belong to it.

    An object in memory has no source: its name counts.
    """
    if is_in_memory(target):
        return hashlib.sha256(target.encode()).hexdigest()
    return digest_program(target.partition(":")[0], *others)


def load_agent(target: str) -> Agent:
    value: Any = load_target(target)
    if inspect.isclass(value) and not is_dspy_module(value):
        value = _make_instance(target, value, f"{EXPECTED_AGENT}, or a class whose instances have such a __call__")
    if is_dspy_module(value):
        raise UserError(f"system.target={target} is a dspy.Module; run it with system=dspy system.target={target}.")
    if not callable(value):
        raise UserError(f"system.target={target} is {name_type(value)}; {EXPECTED_AGENT}.")
    for arrange in _CALLS:
        positional, named = arrange("", None)
        with suppress(TypeError, ValueError):
            inspect.signature(value).bind(*positional, **named)
            break
    else:
        raise UserError(
            f"system.target={target} cannot be called with a question; {EXPECTED_AGENT}, or system=dspy for a function "
            "that makes a dspy.Module."
        )

    def call(question: str, file: Path | None) -> Any:
        positional, named = arrange(question, file)
        return value(*positional, **named)

    return Agent(call, is_coroutine(value))


def is_coroutine(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def is_dspy_module(value: object) -> "TypeGuard[dspy.Module]":
    """Return True for a `dspy.Module`, or a class of them, if dspy is imported."""
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


@dataclass(frozen=True)
class LoadedModule:
    """A user's module, and what it takes and returns."""

    target: str
    module: "dspy.Module"
    inputs: tuple[str, ...]  # names that it takes, in its order
    required: frozenset[str]
    takes_any: bool  # True: it takes names that are not in `inputs`, too
    outputs: tuple[str, ...] | None  # None: unknown before it has answered
    annotations: Mapping[str, object]  # type of each input that has one

    @property
    def predictors(self) -> "dict[str, dspy.Predict]":
        """Return the predictors that can be tuned; DSPy's names are those of the run's agents."""
        return dict(self.module.named_predictors())


def load_module(target: str, state: str | None = None) -> LoadedModule:
    """Load a target that is a `dspy.Module` or makes one, with the state that was saved of it."""
    module = load_target(target)
    if inspect.isclass(module) or inspect.isroutine(module):
        module = _make_instance(target, module, EXPECTED_MODULE)
    if not is_dspy_module(module):
        raise UserError(f"system.target={target} is {name_type(module)}; {EXPECTED_MODULE}.")
    method = getattr(type(module), "aforward" if is_async(module) else "forward", None)
    if method is None:
        raise UserError(f"system.target={target} is a dspy.Module without a forward method; give it one.")
    if not any(isinstance(part, sys.modules["dspy"].Predict) for _, part in module.named_sub_modules()):
        raise UserError(
            f"system.target={target} is a dspy.Module without predictors, such as dspy.Predict: nothing in it asks a "
            "model; assign them to self in its __init__, or run a function that answers with system=callable."
        )
    if state is not None:
        module = module.deepcopy()
        _load_state(target, module, state)
    return _describe(target, module, method)


def is_async(module: "dspy.Module") -> bool:
    """Return True if `aforward` is the program: a subclass may have replaced `forward` alone."""
    for each in type(module).__mro__:
        if own := vars(each).keys() & {"forward", "aforward"}:
            return "aforward" in own
    return False


def choose_answer_field(outputs: Collection[str], answer_field: str | None, target_column: str | None) -> str | None:
    """Return the output that is the answer: configured, the only one, or a usual one; None: unclear."""
    if answer_field is not None:
        return answer_field if answer_field in outputs else None
    answers = [name for name in outputs if name not in SIDE_OUTPUTS] or list(outputs)
    named = [name for name in (target_column, *USUAL_ANSWERS) if name in answers]
    return answers[0] if len(answers) == 1 else (named[0] if named else None)


def describe_answer_choice(target: str, outputs: Collection[str], answer_field: str | None) -> str:
    listed = ", ".join(map(str, outputs)) or "nothing"
    if answer_field is not None:
        return f"system.answer_field={answer_field} is no output of {target}; choose one of its outputs: {listed}."
    return f"{target} returns several fields; name the one with the answer with system.answer_field=NAME: {listed}."


def check_inputs(loaded: LoadedModule, given: Collection[str] | None) -> None:
    """Check that `data.inputs` (None: question and file) has what the module takes, and no more."""
    fields = ("question",) if given is None else tuple(given)
    missing = [name for name in loaded.inputs if name in loaded.required and name not in (*fields, "file")]
    unknown = [name for name in fields if name not in loaded.inputs and not loaded.takes_any]
    if missing or unknown:
        given_names = ", ".join(given) if given is not None else "question, file"
        raise UserError(
            f"system.target={loaded.target} takes {', '.join(loaded.inputs) or 'nothing'}, and the data give "
            f"{given_names}; name the columns of its input fields with data.inputs=[{','.join(loaded.inputs)}], or "
            "'data.inputs={field: column}' where the names differ."
        )


def _describe(target: str, module: "dspy.Module", method: Callable[..., object]) -> LoadedModule:
    from mas.prompt_sets.dspy_internals import annotation_allows_none

    parameters = list(inspect.signature(method).parameters.values())[1:]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    if takes_any:  # dspy.Predict, dspy.ChainOfThought, dspy.ReAct and the like
        found = (getattr(holder, "signature", None) for holder in (module, getattr(module, "predict", None)))
        if signature := next((each for each in found if hasattr(each, "input_fields")), None):
            fields = {name: field.annotation for name, field in signature.input_fields.items()}
            needed = {name for name, field in signature.input_fields.items() if field.is_required()}
            required = frozenset(name for name in needed if not annotation_allows_none(fields[name]))
            return LoadedModule(target, module, tuple(fields), required, False, tuple(signature.output_fields), fields)
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    try:
        types = typing.get_type_hints(method)
    except Exception:  # noqa: BLE001  the user's annotations may raise anything
        types = {}
    names = tuple(each.name for each in named)
    required = frozenset(each.name for each in named if each.default is each.empty)
    return LoadedModule(target, module, names, required, takes_any, None, types)


def _load_state(target: str, module: "dspy.Module", state: str) -> None:
    """Load instructions and demos; a saved model is left out, since the run has its own."""
    try:
        saved: Any = json.loads(Path(state).read_bytes())
        saved.pop("metadata", None)  # the versions that it was saved with
        own = dict(module.named_parameters())
        is_flat = list(own) == [_SELF] and "signature" in saved  # a predictor alone has no name
        states = {_SELF: saved} if is_flat else saved
        if own.keys() != states.keys():
            raise ValueError(f"it has {', '.join(sorted(states)) or 'no predictors'}, not {', '.join(sorted(own))}")
        for name, parameter in own.items():  # DSPy itself would load other fields without a word
            fields = [field.json_schema_extra["prefix"] for field in parameter.signature.fields.values()]
            theirs = [field["prefix"] for field in states[name]["signature"]["fields"]]
            if fields != theirs:
                raise ValueError(f"{name} has the fields {' '.join(theirs)} there, not {' '.join(fields)}")
        without_models = {name: {**state, "lm": None} for name, state in states.items()}
        module.load_state(without_models[_SELF] if is_flat else without_models)
    except Exception as error:  # any, from DSPy or an unexpected file
        raise UserError(
            f"system.state={state} cannot be loaded into {target} ({describe_cause(error)}); expected the JSON that "
            "program.save('program.json') of this program writes, not a pickle."
        ) from error
