"""Errors of Hydra and OmegaConf as a user should see them: one sentence with what is wrong and what to do."""

import difflib
import re
import traceback
from collections.abc import Callable, Collection, Iterable

from hydra.errors import OverrideParseException
from omegaconf import OmegaConf

from eval.cli.hydra_compat import MISTAKES
from mas.runtime.errors import UserError, walk_chain

_EXPECTED = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}

Found = re.Match[str]


def is_mistake(error: BaseException) -> bool:
    """Return whether the error is a mistake of the user, which `describe_mistake` can describe.

    Some are plain ValueErrors of Hydra: `model=1`, or `-sc` for a shell that it does not know.
    """
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    is_of_hydra = isinstance(error, ValueError) and bool(modules) and modules[-1].startswith("hydra.")
    return is_of_hydra or isinstance(error, MISTAKES)


def describe_mistake(error: BaseException) -> str:
    """Return one sentence: what is wrong, what was expected and what to do."""
    if isinstance(error, UserError):
        return str(error)
    text = "\n".join(map(str, walk_chain(error)))
    text = text.partition("Config search path:")[0].partition("See https://hydra.cc")[0]
    for pattern, describe in _SENTENCES:
        if found := re.search(pattern, text, re.DOTALL):
            return describe.format(*found.groups()) if isinstance(describe, str) else describe(error, found)
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override!r} cannot be read; options are given as name=value, and texts with spaces or special "
            "characters in quotes: 'key=\"a=b\"'."
        )
    return " ".join(text.partition("full_key:")[0].split())


def _suggest(name: str, known: Collection[str]) -> str:
    """Return a clause that lists the known names, with the most similar one first if any is similar."""
    listed = f"choose one of: {', '.join(sorted(set(known) - {'hydra', '_target_'}))}"
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]}? Otherwise {listed}" if close else listed


def _describe_choice(error: BaseException, found: Found) -> str:
    group, _, name = found[1].rpartition("/")
    return f"{group}={name} is not known; {_suggest(name, found[2].split())}."


def _describe_several(error: BaseException, found: Found) -> str:
    key = found[1].partition("=")[0]
    return (
        f"{found[1]} gives several values; add --multirun for one run after the other, or write '{key}=[a,b]' for a "
        f"list and '{key}=\"a,b\"' for a text."
    )


def _describe_unknown(error: BaseException, found: Found) -> str:
    """Name an unknown key with those that exist in its place."""
    branch, _, name = found[1].rpartition(".")
    nodes = [getattr(each, "parent_node", None) for each in walk_chain(error, contexts=True)]
    branches = (each for each in nodes if each is not None and OmegaConf.is_dict(each) and len(each))
    node: Iterable[object] = next(branches, ())
    if options := [str(each) for each in node if each != "_target_"]:
        return f"{found[1]} is not an option; {_suggest(name, options)}."
    return f"{found[1]} is not an option: {branch} as it is chosen now has none; leave it out, or choose another."


def _describe_type(error: BaseException, found: Found) -> str:
    pattern = r"Value '(.*)' (?:of type '.*' could not be converted to|is not a valid) (\w+)"
    wrong = re.search(pattern, found[1], re.DOTALL)
    problem = f"{' '.join(found[1].split())}; correct it"
    if wrong and wrong[2] in _EXPECTED:
        problem = f"{wrong[1]!r} was given, and {_EXPECTED[wrong[2]]} is expected"
    return f"{found[2]} has the wrong kind of value: {problem}."


# Texts of Hydra's and OmegaConf's errors; the first that fits counts.
_SENTENCES: tuple[tuple[str, str | Callable[[BaseException, Found], str]], ...] = (
    (r"Could not find '([^']*)'.*?Available options in '[^']*':\s*(.*)", _describe_choice),
    (
        r"Could not override '([^']*)'\. ?No match in the defaults list",
        "{} is not a config group of this command; --help lists them.",
    ),
    (
        "Config group override must be",
        "a config group was given null, a number, true or false; name a choice, such as model=offline.",
    ),
    (r"Ambiguous value for argument '(.*?)'\s+1\.", _describe_several),
    (r"Key '[^']*' (?:is not in struct|not in '[^']*').*?full_key: (\S+)", _describe_unknown),
    (r"Missing mandatory value: (\S+)", "{0} has no value; give it on the command line: {0}=…"),
    (r"is not a ListConfig.*?full_key: (\S+)", "{0} needs a list; give it as {0}=[a,b]."),
    (r"(.*?)\s*full_key: (\S+)", _describe_type),
)
