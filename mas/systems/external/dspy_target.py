"""Target of the dspy system: from `package.module:Program` and a saved state to a `dspy.Module` and its fields.

loaded = load_module("triage:Program", "compiled.json")
loaded.inputs, loaded.outputs          # ("title", "body"), ("label",)
list(loaded.predictors)                # ["classify.predict", "steps.0"]: DSPy's names, safe for files
"""

import inspect
import json
import sys
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mas.runtime.errors import UserError
from mas.runtime.text import name_type
from mas.systems.external.target import describe_cause, is_dspy_module, load_target, make_instance

if TYPE_CHECKING:
    import dspy

EXPECTED = "expected a dspy.Module: its class, an instance, or a function without parameters that returns one"
SIDE_OUTPUTS = ("reasoning", "trajectory")  # added by dspy.ChainOfThought and dspy.ReAct; never the answer
USUAL_ANSWERS = ("answer", "final_answer")
_METADATA = "metadata"  # of a saved state: the versions that it was saved with
_SELF = "self"  # DSPy's name of the only predictor of a program that is one itself
_NOT_OF_NAME = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY}


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
        """Return the predictors that can be tuned, under DSPy's names, which are those of the run's agents."""
        return dict(self.module.named_predictors())


def load_module(target: str, state: str | None = None) -> LoadedModule:
    """Load a module, with the state that was saved of it.

    Raises:
        UserError: the target is no module that can be called, has no predictors, or the state is not its own.
    """
    module = _make_module(target, load_target(target))
    method = getattr(type(module), "aforward" if is_async(module) else "forward", None)
    if method is None:
        raise UserError(f"system.target={target} is a dspy.Module without a forward method; give it one.")
    if not any(isinstance(each, sys.modules["dspy"].Predict) for _, each in module.named_sub_modules()):
        raise UserError(
            f"system.target={target} is a dspy.Module without predictors, such as dspy.Predict: nothing in it asks a "
            "model; assign them to self in its __init__, or run a function that answers with system=callable."
        )
    if state is not None:
        module = module.deepcopy()
        _load_state(target, module, state)
    return _describe(target, module, method)


def is_async(module: "dspy.Module") -> bool:
    """Return True if `aforward` is the program: a subclass of DSPy's own modules may have replaced `forward` alone."""
    for each in type(module).__mro__:
        if "aforward" in vars(each) or "forward" in vars(each):
            return "aforward" in vars(each)
    return False


def choose_answer_field(outputs: Collection[str], answer_field: str | None, target_column: str | None) -> str | None:
    """Return the output that is the answer; None if that is not clear.

    Args:
        outputs: names of all outputs.
        answer_field: as configured; None: the only output, or one with the name of the target column or a usual one.
        target_column: of the data.
    """
    if answer_field is not None:
        return answer_field if answer_field in outputs else None
    answers = [name for name in outputs if name not in SIDE_OUTPUTS] or list(outputs)
    named = [name for name in (target_column, *USUAL_ANSWERS) if name in answers]
    return answers[0] if len(answers) == 1 else (named[0] if named else None)


def describe_answer_choice(target: str, outputs: Collection[str], answer_field: str | None) -> str:
    """Return the sentence on an answer that `choose_answer_field` does not find."""
    listed = ", ".join(map(str, outputs)) or "nothing"
    if answer_field is not None:
        return f"system.answer_field={answer_field} is no output of {target}; choose one of its outputs: {listed}."
    return f"{target} returns several fields; name the one with the answer with system.answer_field=NAME: {listed}."


def check_inputs(loaded: LoadedModule, given: Collection[str] | None) -> None:
    """Check that the data give what the module takes.

    Args:
        loaded: the module.
        given: the fields of `data.inputs`; None: the data have a question and perhaps a file.

    Raises:
        UserError: a field without a column, or a column without a field.
    """
    fields = ("question", "file") if given is None else (*given, "file")
    missing = [name for name in loaded.inputs if name in loaded.required and name not in fields]
    unknown = [name for name in given or () if name not in loaded.inputs and not loaded.takes_any]
    if given is None and "question" not in loaded.inputs and not loaded.takes_any:
        missing = missing or ["question"]
    if missing or unknown:
        given_names = ", ".join(given) if given is not None else "question, file"
        raise UserError(
            f"system.target={loaded.target} takes {', '.join(loaded.inputs) or 'nothing'}, and the data give "
            f"{given_names}; name the columns of its input fields with data.inputs=[{','.join(loaded.inputs)}], or "
            "'data.inputs={field: column}' where the names differ."
        )


def _make_module(target: str, found: object) -> "dspy.Module":
    where, is_class = f"system.target={target}", inspect.isclass(found)
    if is_dspy_module(found) and not is_class:
        return cast("dspy.Module", found)
    if not callable(found) or not (is_class or inspect.isroutine(found)):
        raise UserError(f"{where} is {name_type(found)}; {EXPECTED}, or run a function with system=callable.")
    expected = f"{EXPECTED}, or run a function that answers with system=callable"
    made = make_instance(target, found, expected)
    if not is_dspy_module(made):
        raise UserError(f"{where} makes {name_type(made)}; {EXPECTED}, or run it with system=callable.")
    return cast("dspy.Module", made)


def _describe(target: str, module: "dspy.Module", method: Callable[..., object]) -> LoadedModule:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    named = [each for each in parameters if each.kind not in _NOT_OF_NAME]
    signature = _find_signature(module) if takes_any else None
    if signature is None:
        names, types = tuple(each.name for each in named), _read_types(method)
        required = frozenset(each.name for each in named if each.default is each.empty)
        annotations = {name: types[name] for name in names if name in types}
        return LoadedModule(target, module, names, required, takes_any, None, annotations)
    from mas.prompt_sets.dspy_internals import annotation_allows_none

    fields = {name: field.annotation for name, field in signature.input_fields.items()}
    required = frozenset(
        name
        for name, field in signature.input_fields.items()
        if field.is_required() and not annotation_allows_none(field.annotation)
    )
    outputs = tuple(signature.output_fields)
    return LoadedModule(target, module, tuple(fields), required, False, outputs, fields)


def _read_types(method: Callable[..., object]) -> dict[str, object]:
    """Return the types of a method's parameters; none if a name in them cannot be resolved."""
    try:
        return dict(typing.get_type_hints(method))
    except Exception:  # noqa: BLE001  the user's annotations may raise anything
        return {}


def _find_signature(module: "dspy.Module") -> "type[dspy.Signature] | None":
    """Return the signature of `dspy.Predict`, `dspy.ChainOfThought`, `dspy.ReAct` and the like."""
    for holder in (module, getattr(module, "predict", None)):
        found = getattr(holder, "signature", None)
        if inspect.isclass(found) and hasattr(found, "input_fields"):
            return cast("type[dspy.Signature]", found)
    return None


def _load_state(target: str, module: "dspy.Module", state: str) -> None:
    """Load instructions and demos; a model that was saved with them is left out, since the run has its own."""
    saved = {name: each for name, each in _read_state(state).items() if name != _METADATA}
    own = dict(module.named_parameters())
    is_flat = list(own) == [_SELF]  # a predictor alone: DSPy saves it without a name
    if is_flat and "signature" in saved:
        saved = {_SELF: saved}
    other = f"system.state={state} was saved by another program"
    if own.keys() != saved.keys():
        raise UserError(
            f"{other}: it has {', '.join(sorted(saved)) or 'no predictors'}, and {target} has "
            f"{', '.join(sorted(own))}; give the state of this program."
        )
    try:
        for name, parameter in own.items():  # DSPy itself would load other fields without a word
            if (signature := getattr(parameter, "signature", None)) is not None:
                fields = [field.json_schema_extra["prefix"] for field in signature.fields.values()]
                if fields != (there := [each["prefix"] for each in saved[name]["signature"]["fields"]]):
                    raise UserError(f"{other}: {name} has the fields {' '.join(there)} there, not {' '.join(fields)}.")
        loaded = {name: {**each, "lm": None} for name, each in saved.items()}
        module.load_state(loaded[_SELF] if is_flat else loaded)
    except UserError:
        raise
    except Exception as error:  # whatever DSPy raises about a file from outside
        raise UserError(
            f"system.state={state} cannot be loaded into {target} ({describe_cause(error)}); save it again with "
            "program.save('program.json')."
        ) from error


def _read_state(state: str) -> dict[str, Any]:
    """Return the JSON of a saved program; a pickle, which can run any code when it is read, is none."""
    try:
        content = json.loads(Path(state).read_bytes())
    except (ValueError, RecursionError, OSError) as error:
        content = describe_cause(error)
    if not isinstance(content, dict):
        raise UserError(
            f"system.state={state} holds no saved program ({str(content)[:200]}); expected the JSON that "
            "program.save('program.json') writes, not a pickle."
        )
    return content
