"""A prompt set: a folder with one text per agent, the instructions of the agent's DSPy predictor.

prompts/baseline/
    set.yaml                        system: gaia, description: …
    planner_system_prompt.txt       one per predictor, named like it
    …
    demos.json                      if there are any: agent → [{field: value}, …] (`mas/prompt_sets/demos.py`)
    provenance.yaml                 of a published set: where it comes from (`mas/prompt_sets/provenance.py`)
    tuned_on.json                   of a tuned set: the questions it was tuned on, as fingerprints
"""

import hashlib
import inspect
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from mas.prompt_sets.provenance import (
    TUNED_ON_FILE,
    TunedOn,
    find_edited_files,
    read_checked,
    read_provenance,
    read_tuned_on,
)
from mas.runtime.errors import UserError
from mas.runtime.text import replace_surrogates

if TYPE_CHECKING:
    import dspy

Demo = dict[str, object]  # one example as plain JSON: values by field
Module = TypeVar("Module", bound="dspy.Module")

SET_FILE = "set.yaml"
DEMOS_FILE = "demos.json"
SUFFIX = "_system_prompt.txt"
OWN = "own"  # name of a derived set
PROJECT_ROOT = Path(__file__).resolve().parents[2]
_UNFIT = re.compile(r"""[%/\\:*?"<>|\x00-\x1f]""")  # for a file's name on every system


@dataclass(frozen=True)
class PromptSet:
    """Texts and worked examples of the agents.

    Both are normalised: a text equals the instructions that DSPy makes of it, an example equals its file read again.
    """

    name: str
    system: str  # the system that the texts are written for
    texts: dict[str, str]  # agent -> instructions
    folder: Path
    description: str = ""
    demos: dict[str, list[Demo]] = field(default_factory=dict)  # by agent, if it has any
    edited: tuple[str, ...] = ()  # files that differ from the checksums in provenance.yaml
    provenance: Mapping[str, Any] = field(default_factory=dict)  # content of provenance.yaml
    tuned_on: TunedOn | None = None  # None: unknown

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", {agent: _normalised(text) for agent, text in self.texts.items()})
        demos = {agent: replace_surrogates(demos) for agent, demos in self.demos.items() if demos}
        object.__setattr__(self, "demos", json.loads(json.dumps(demos)))


def read_prompt_set(name_or_path: str | Path, agents: Sequence[str], system: str, root: Path) -> PromptSet:
    """Read `root/prompts/NAME`, or the folder of a path (anything with a `/`).

    A relative path is looked for in the current folder, then in `root`. UserError: there is no such set, it is made for
    another system, its files are not exactly the agents' texts, or its examples are not the agents'. The fields of an
    example are checked when it is applied.
    """
    folder = find_set_folder(str(name_or_path), root)
    about = _read_set_file(folder / SET_FILE)
    if about["system"] != system:
        raise UserError(
            f"The prompt set {folder} is made for the system '{about['system']}', not for '{system}'; "
            f"choose a set whose {SET_FILE} says 'system: {system}'."
        )
    _check_files(folder, agents)
    texts = {agent: _read_prompt(folder / name_prompt_file(agent)) for agent in agents}
    demos, provenance = _read_demos(folder / DEMOS_FILE, agents), read_provenance(folder)
    content = [name for name in list_files(folder) if name.endswith(SUFFIX) or name in (DEMOS_FILE, TUNED_ON_FILE)]
    edited, tuned_on = find_edited_files(folder, provenance, content), read_tuned_on(folder)
    return PromptSet(folder.name, system, texts, folder, about["description"], demos, edited, provenance, tuned_on)


def read_set_folder(folder: Path) -> PromptSet:
    """Read the set in a folder, of any system; its files name the agents. UserError: there is none."""
    folder = find_set_folder(str(folder.absolute()), folder)
    agents = [unquote(path.name.removesuffix(SUFFIX)) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    return read_prompt_set(folder, agents, _read_set_file(folder / SET_FILE)["system"], folder)


def write_prompt_set(folder: Path, prompt_set: PromptSet) -> PromptSet:
    """Write the set as a new folder, and return it as `read_prompt_set` will: without provenance.

    `set.yaml` is written last: a folder whose writing was interrupted is not taken for a set. UserError: the folder
    holds a set already (none is ever overwritten), or cannot be written.
    """
    import yaml

    about = {"system": prompt_set.system, "description": prompt_set.description}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / SET_FILE).exists():
            raise UserError(f"{folder} holds a prompt set already; choose another name or remove that folder first.")
        for agent, text in prompt_set.texts.items():
            (folder / name_prompt_file(agent)).write_text(text + "\n", encoding="utf-8", newline="\n")
        for name in (DEMOS_FILE, TUNED_ON_FILE):
            (folder / name).unlink(missing_ok=True)  # left by a set whose writing was interrupted
        if prompt_set.demos:
            demos = json.dumps(prompt_set.demos, ensure_ascii=False, indent=2)
            (folder / DEMOS_FILE).write_text(demos + "\n", encoding="utf-8", newline="\n")
        if prompt_set.tuned_on:
            (folder / TUNED_ON_FILE).write_text(prompt_set.tuned_on.to_json(), encoding="ascii", newline="\n")
        set_text = yaml.safe_dump(about, sort_keys=False, allow_unicode=True, width=120)
        (folder / SET_FILE).write_text(set_text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"The prompt set cannot be written to {folder}: {_cause(error)}; check the folder.") from error
    return replace(prompt_set, name=folder.resolve().name, folder=folder, edited=(), provenance={})


def name_prompt_file(agent: str) -> str:
    """Return the name of an agent's file; a predictor in a dictionary may have any key in its name."""
    return _UNFIT.sub(lambda found: f"%{ord(found[0]):02X}", agent) + SUFFIX


def derive_prompt_set(module: "dspy.Module", system: str, target: str) -> PromptSet:
    """Return a set for a system of the instructions and demos of the module that `target` names.

    The fields of its signatures, with their prefixes, descriptions and types, are code and no part of a set. UserError:
    the module has no predictors, or one without instructions.
    """
    description = f"The instructions and demos of {target} itself."
    prompts = read_applied_prompts(module, PromptSet(OWN, system, {}, Path(OWN), description))
    if not prompts.texts:
        raise UserError(
            f"system.target={target} has no predictors, so there are no prompts to tune; expected a dspy.Module with "
            "a dspy.Predict, dspy.ChainOfThought or the like as an attribute."
        )
    if empty := [name for name, text in prompts.texts.items() if not text]:
        raise UserError(
            f"system.target={target}: the predictor {empty[0]} has no instructions; give its signature a docstring."
        )
    return prompts


def apply_prompts(program: Module, prompts: PromptSet | Path | str, root: Path = PROJECT_ROOT) -> Module:
    """Give a program the instructions and demos of a prompt set, and nothing else, and return it.

    `prompts` is the set, its name under `prompts/` of `root`, or the path of its folder (anything with a `/`).
    UserError: there is no such set, or it is for a program with other predictors or fields; nothing has been changed.
    """
    if not isinstance(prompts, PromptSet):
        prompts = read_set_folder(find_set_folder(str(prompts), root))
    apply_prompt_set(program, prompts, plain_demos=True)
    return program


def apply_prompt_set(program: "dspy.Module", prompt_set: PromptSet, plain_demos: bool = False) -> None:
    """Set the instructions and demos of each agent's predictor; its other demos are removed.

    Demos are complete and typed, as our agents need them. With `plain_demos`, or a program with that attribute, they
    are as `dspy.Module.load` would read them: they may lack fields, and keep their JSON values. UserError: the set is
    for other predictors, or an example for other fields; nothing has been changed then.
    """
    predictors = dict(program.named_predictors())
    if predictors.keys() != prompt_set.texts.keys():
        raise UserError(
            f"The prompt set {prompt_set.name} is for the predictors {', '.join(sorted(prompt_set.texts))}, but this "
            f"program has {', '.join(sorted(predictors)) or 'none'}; choose a set that was made for it."
        )
    is_plain = plain_demos or bool(getattr(program, "plain_demos", False))
    shown = [agent for agent in predictors if agent in prompt_set.demos]
    demos = {agent: _load_demos(agent, predictors[agent].signature, prompt_set, is_plain) for agent in shown}
    for agent, text in prompt_set.texts.items():
        predictors[agent].signature = cache_signatures(predictors[agent].signature.with_instructions(text))
        predictors[agent].demos = demos.get(agent, [])


def read_applied_prompts(program: "dspy.Module", base: PromptSet) -> PromptSet:
    """Return the present texts and demos of a program that began with the prompts `base`."""
    from mas.prompt_sets.demos import to_json

    predictors = dict(program.named_predictors())
    return replace(
        base,
        texts={name: each.signature.instructions for name, each in predictors.items()},
        demos={name: [to_json(demo, each.signature) for demo in each.demos] for name, each in predictors.items()},
        edited=(),
        provenance={},
    )


def write_state(program: "dspy.Module", path: Path) -> None:
    """Write the program's state as DSPy does, for `program.load`.

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


def _load_demos(
    agent: str, signature: "type[dspy.Signature]", prompt_set: PromptSet, is_plain: bool
) -> "list[dspy.Example]":
    from mas.prompt_sets.demos import from_json

    loaded = []
    for number, data in enumerate(prompt_set.demos[agent], 1):
        try:
            loaded.append(from_json(data, signature, is_plain))
        except ValueError as error:
            raise UserError(
                f"Example {number} of '{agent}' in {prompt_set.folder / DEMOS_FILE} {error}; correct it or remove it."
            ) from error
    return loaded


def cache_signatures(signature: "type[dspy.Signature]") -> "type[dspy.Signature]":
    """Return the signature with the results of its `delete` cached.

    DSPy deletes the fields `history`, `tools` and `tool_calls` for every single request, and makes a new pydantic class
    each time: a tenth of a run's CPU time, and garbage that only the collector can remove.
    """
    delete, cached = signature.delete, {}

    def delete_once(name: str) -> "type[dspy.Signature]":
        if name not in cached:
            cached[name] = cache_signatures(delete(name))
        return cached[name]

    signature.delete = staticmethod(delete_once)
    return signature


def digest(prompt_set: PromptSet) -> str:
    """Return the SHA-256 of what reaches the model: texts and examples, not name and place."""
    content = json.dumps(prompt_set.texts, sort_keys=True)
    if prompt_set.demos:  # in their order: that of a tool call's arguments reaches the model
        content += "\n" + json.dumps(dict(sorted(prompt_set.demos.items())))
    return hashlib.sha256(content.encode()).hexdigest()


def describe_edits(prompt_set: PromptSet) -> str | None:
    """Return one line about a published set that was edited since; None if it was not."""
    place, edited = f"{prompt_set.folder.parent.name}/{prompt_set.folder.name}", ", ".join(prompt_set.edited)
    note = f"note: {place} was edited after it was published ({edited}): its provenance no longer describes it"
    return note if edited else None


def _normalised(text: str) -> str:
    """Return the form that `inspect.cleandoc` (DSPy) and `textwrap.dedent` (adapter) leave unchanged.

    Stripping first is needed: `cleandoc` alone is not stable on a text that begins with an empty and an indented line.
    """
    lines = re.sub(r"\r\n?", "\n", replace_surrogates(text))
    return inspect.cleandoc(re.sub(r"(?m)^[^\S\n]+$", "", lines).strip())


def find_set_folder(name: str, root: Path) -> Path:
    """Return the folder `root/prompts/NAME`, or the path's (with a `/`); UserError: there is none."""
    shelf = root / "prompts"
    path = Path(name).expanduser()
    folders = [path, root / path] if "/" in name or path.is_absolute() else [shelf / name]
    for folder in folders:
        if name and os.path.isdir(folder):  # noqa: PTH112  # also for a name that no file system takes
            return folder.resolve()
    known = ", ".join(sorted(file.parent.name for file in shelf.glob(f"*/{SET_FILE}"))) or "none"
    raise UserError(
        f"There is no prompt set '{name}'; give the name of one in {shelf} (available: {known}) "
        "or the path of a folder, with a '/' in it."
    )


def list_files(folder: Path) -> set[str]:
    """Return the names in a folder; raise UserError if it cannot be read."""
    try:
        return {file.name for file in folder.iterdir()}
    except OSError as error:
        raise UserError(f"The folder {folder} cannot be read: {_cause(error)}; check its permissions.") from error


def _read_set_file(file: Path) -> dict[str, str]:
    """Return the keys of `set.yaml`: `system`, and perhaps `description`."""
    expected = "expected the keys 'system' (the system's name) and, if you like, 'description' (a text)"
    keys = read_checked(file, dict[str, str | None], expected)
    if keys is None:
        raise UserError(f"The prompt set {file.parent} has no {SET_FILE}; {expected} in it.")
    if not keys.get("system") or keys.keys() - {"system", "description"}:
        raise UserError(f"{file} cannot be used (its keys: {', '.join(keys) or 'none'}); {expected}.")
    return {"system": str(keys["system"]).strip(), "description": keys.get("description") or ""}


def _check_files(folder: Path, agents: Sequence[str]) -> None:
    """Check that each agent has a prompt file: with a misspelt name it would have its default one."""
    expected = {name_prompt_file(agent) for agent in agents}
    present = {name for name in list_files(folder) if name.endswith(SUFFIX)}
    if missing := sorted(expected - present):
        others = f" (and {', '.join(missing[1:])})" if len(missing) > 1 else ""
        raise UserError(f"Prompt file not found: {folder / missing[0]}{others}; add one text file for each agent.")
    if unknown := sorted(present - expected):
        raise UserError(
            f"The prompt set {folder} has {', '.join(unknown)}, which belong to no agent of the system; "
            f"remove or rename them (the agents are {', '.join(agents)})."
        )


def _read_demos(file: Path, agents: Sequence[str]) -> dict[str, list[Demo]]:
    expected = "expected an agent's name → a list of its examples, each an object of fields and values"
    demos = read_checked(file, dict[str, list[Demo]], expected) or {}
    if unknown := sorted(demos.keys() - set(agents)):
        raise UserError(
            f"{file} has examples for {', '.join(unknown)}, which is no agent of the system; "
            f"remove or rename them (the agents are {', '.join(agents)})."
        )
    return demos


def _read_prompt(file: Path) -> str:
    """Return the text of a prompt file; a byte order mark, as Windows editors write it, is dropped."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"The prompt file {file} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    except OSError as error:
        raise UserError(f"The prompt file {file} cannot be read: {_cause(error)}; correct it.") from error
    if not text.strip():
        raise UserError(f"The prompt file {file} is empty; write the agent's instructions into it.")
    return text


def _cause(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
