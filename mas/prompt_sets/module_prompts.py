"""Prompts of anyone's `dspy.Module`: derived from it as a prompt set, applied to it, and written as DSPy's own state.

    prompts = derive_prompt_set(program, "dspy", "my_program:Program")     # its own instructions and demos
    apply_prompts(program, "mine")                                         # prompts/mine, or the path of a folder
    write_state(program, Path("out.json"))                                 # program.load("out.json") loads it

A prompt set holds instructions and demos. The fields of a signature, with their prefixes, descriptions and types, stay
the module's own: they are code, and no optimizer changes them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, find_set_folder, read_set_folder
from mas.runtime.errors import UserError

if TYPE_CHECKING:
    import dspy

OWN = "own"  # name of a derived set
PROJECT_ROOT = Path(__file__).resolve().parents[2]


Module = TypeVar("Module", bound="dspy.Module")


def derive_prompt_set(module: "dspy.Module", system: str, target: str) -> PromptSet:
    """Return a set of the module's own instructions and demos.

    Args:
        module: anyone's.
        system: name of the system that the set is for.
        target: where the module comes from, such as `package.module:Program`.

    Raises:
        UserError: the module has no predictors, or one without instructions.
    """
    from mas.prompt_sets.demos import to_json

    predictors = dict(module.named_predictors())
    if not predictors:
        raise UserError(
            f"system.target={target} has no predictors, so there are no prompts to tune; expected a dspy.Module with "
            "a dspy.Predict, dspy.ChainOfThought or the like as an attribute."
        )
    texts = {name: each.signature.instructions for name, each in predictors.items()}
    if empty := [name for name, text in texts.items() if not text.strip()]:
        raise UserError(
            f"system.target={target}: the predictor {empty[0]} has no instructions; give its signature a docstring."
        )
    demos = {name: [to_json(demo, each.signature) for demo in each.demos] for name, each in predictors.items()}
    description = f"The instructions and demos of {target} itself."
    return PromptSet(OWN, system, texts, Path(OWN), description, demos)


def apply_prompts(program: Module, prompts: PromptSet | Path | str, root: Path = PROJECT_ROOT) -> Module:
    """Give a program the instructions and demos of a prompt set; models, fields and everything else stay its own.

    Args:
        program: of the class that the set was tuned for.
        prompts: the set, its name under `prompts/`, or the path of its folder (anything with a `/`).
        root: the folder that contains `prompts/`.

    Returns:
        The same program.

    Raises:
        UserError: there is no such set, or it is for a program with other predictors or fields; nothing has been
            changed then.
    """
    if not isinstance(prompts, PromptSet):
        prompts = read_set_folder(find_set_folder(str(prompts), root))
    predictors = dict(program.named_predictors())
    if predictors.keys() != prompts.texts.keys():
        raise UserError(
            f"The prompt set {prompts.name} is for the predictors {', '.join(sorted(prompts.texts))}, but this program "
            f"has {', '.join(sorted(predictors)) or 'none'}; choose a set that was made for it."
        )
    apply_prompt_set(program, prompts, plain_demos=True)
    return program


def write_state(program: "dspy.Module", path: Path) -> None:
    """Write the program's state as DSPy does, for `program.load`.

    Raises:
        UserError: the file is there already, has another ending, or cannot be written.
    """
    if path.suffix != ".json":
        raise UserError(f"{path} does not end with .json, which dspy.Module.load expects; choose another name.")
    if path.exists():
        raise UserError(f"{path} is there already, and no file is overwritten; choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        program.save(str(path))
    except (OSError, RuntimeError) as error:
        path.unlink(missing_ok=True)
        cause = " ".join(str(error).split())
        raise UserError(f"{path} cannot be written ({cause}); check the folder and the program.") from error
