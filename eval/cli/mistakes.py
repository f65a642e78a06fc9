"""Errors of Hydra and OmegaConf as a user should see them: one sentence with what is wrong and what to do."""

import difflib
import re
import traceback
from collections.abc import Callable, Collection

from hydra.errors import OverrideParseException
from omegaconf import OmegaConf

from eval.cli.hydra_compat import MISTAKES
from mas.runtime.errors import UserError, walk_chain

_OF_RAY = ("executor.workers", "executor.address")
_EXPECTED = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}

Found = re.Match[str]
Describe = Callable[[BaseException, Found], str]


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
            return describe(error, found)
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override!r} cannot be read; options are given as name=value, and texts with spaces or special "
            "characters in quotes: 'key=\"a=b\"'."
        )
    return _join_lines(text.partition("full_key:")[0])


def _suggest(name: str, known: Collection[str]) -> str:
    """Return a clause that lists the known names, with the most similar one first if any is similar."""
    listed = f"choose one of: {', '.join(sorted(set(known) - {'hydra'}))}"
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
    key = found[2]
    if key in _OF_RAY:
        return f"{key} needs executor=ray: executor=local answers in the command's own process."
    for each in walk_chain(error, contexts=True):
        node = getattr(each, "parent_node", None)
        if node is not None and OmegaConf.is_dict(node) and len(node):
            options = sorted(str(name) for name in node if name not in ("_target_", "hydra"))
            branch, _, name = key.rpartition(".")
            none = f"{branch} as it is chosen now has none; leave it out, or choose another"
            return f"{key} is not an option; {_suggest(name, options) if options else none}."
    return f"{key} is not an option; see --help, or the files in conf/, for those there are."


def _describe_type(error: BaseException, found: Found) -> str:
    pattern = r"Value '(.*)' (?:of type '.*' could not be converted to|is not a valid) (\w+)"
    wrong = re.search(pattern, found[1], re.DOTALL)
    if wrong and wrong[2] in _EXPECTED:
        problem = f"{wrong[1]!r} was given, and {_EXPECTED[wrong[2]]} is expected"
    else:
        problem = f"{_join_lines(found[1])}; correct it"
    return f"{found[2]} has the wrong kind of value: {problem}."


def _join_lines(text: str) -> str:
    return " ".join(text.split())


_SENTENCES: tuple[tuple[str, Describe], ...] = (  # texts of Hydra's and OmegaConf's errors; the first that fits counts
    (r"Could not find '([^']*)'.*?Available options in '[^']*':\s*(.*)", _describe_choice),
    (
        r"Could not override '([^']*)'\. ?No match in the defaults list",
        lambda _, found: f"{found[1]} is not a config group of this command; --help lists them.",
    ),
    (
        r"Multiple values for (\S+)\.",
        lambda _, found: f"{found[1]} has a choice already; write {found[1]}=… without +.",
    ),
    (
        "Config group override must be",
        lambda *_: "a config group was given null, a number, true or false; name a choice, such as model=offline.",
    ),
    (r"Ambiguous value for argument '(.*?)'\s+1\.", _describe_several),
    (
        r"Could not delete from config\. '([^']*)' does not exist",
        lambda _, found: f"{found[1]} cannot be taken away: it does not exist; --help lists the options.",
    ),
    (r"Key '([^']*)' (?:is not in struct|not in '[^']*').*?full_key: (\S+)", _describe_unknown),
    (
        r"Missing mandatory value: (\S+)",
        lambda _, found: f"{found[1]} has no value; give it on the command line: {found[1]}=…",
    ),
    (
        r"is not a ListConfig.*?full_key: (\S+)",
        lambda _, found: f"{found[1]} needs a list; give it as {found[1]}=[a,b].",
    ),
    (r"(.*?)\s*full_key: (\S+)", _describe_type),
)
