"""Replies that miss the form asked for and can still be read in one way only.

Small models write `Approve.`, `**42**`, `1,042`, a list as lines that begin with a dash, `## Answer` for a field's
header. What could be read in two ways (`50%` for a fraction, `approve or reject`) stays an error.
They also write tool calls into their text: as JSON, fenced, with doubled braces or in the tags of Hermes, and as the
XML of Qwen Coder and of Anthropic.
"""

import enum
import json
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import dspy
import json_repair

from mas.prompt_sets.dspy_internals import parse_value

_BULLET = re.compile(r"\s*(?:[-*•\u2013]|\(?\d+[.)]|\[\d+\])\s+")
_NUMBER = re.compile(r"[=~≈$€£\s]*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)")
_FENCED = re.compile(r"\A\s*```(?:\w+\n)?(.*?)(?:\s*```\s*)?\Z", re.DOTALL)
_ASSIGNED = re.compile(r"\A=(?:\s+|(?=['\"]))(['\"]?)(.*)\1\Z", re.DOTALL)  # = 'the value'
_BUT = re.compile(  # a remark that may take it back
    r"\b(?:but|not|no|never|cannot|\w+n['\u2019]t|or|if|unless|except|however)\b", re.IGNORECASE
)
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


def read_fields(signature: type[dspy.Signature], text: str) -> dict[str, object] | None:
    """Return all output fields of a reply in another form; None if one is missing or unreadable."""
    for found in (_find_sections(signature, text), *map(_find_keys, find_objects(text))):
        named = {name: found.get(name.casefold()) for name in signature.output_fields}
        if None in named.values():
            continue
        try:
            return {name: read_value(named[name], field.annotation) for name, field in signature.output_fields.items()}
        except ValueError:
            continue
    return None


def _find_sections(signature: type[dspy.Signature], text: str) -> dict[str, object]:
    """Return the text below each line that names a field, such as `## Answer` or `**Answer:** 42`."""
    names = {name.casefold().replace("_", " "): name.casefold() for name in signature.output_fields}
    words = "|".join(re.escape(name).replace(r"\ ", "[ _-]") for name in names)
    header = re.compile(rf"^[ \t]*(?:[\[#*]+[ \t#]*({words})[ \t]*(?:[#*\]:]+[ \t#*\]:]*|$)|({words}):)", re.I | re.M)
    parts = header.split(_FENCED.sub(r"\1", text))
    found: dict[str, object] = {}
    for decorated, plain, value in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        name = names[re.sub(r"[ _-]", " ", (decorated or plain).casefold())]
        if value.strip():
            found.setdefault(name, _ASSIGNED.sub(r"\2", value.strip()))
    return found


def _find_keys(value: object) -> dict[str, object]:
    """Return the keys of an object, or of the one that it holds alone: {"response": {"answer": "42"}}."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(inner := next(iter(value.values())), dict):
        value = inner
    return {str(key).casefold(): each for key, each in value.items()} if isinstance(value, dict) else {}


def read_value(value: object, annotation: Any) -> object:
    """Return a field's value, as DSPy reads it or as it can only be meant; ValueError: another type."""
    try:
        return parse_value(value, annotation)
    except ValueError:
        if not isinstance(value, str):
            raise
        meant = _read_text(value.strip(), annotation)
        if meant is None:
            raise
        return meant


def _read_text(text: str, annotation: Any) -> object:
    """Return what a text can only mean; None if there is nothing or more than one thing."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        options = [_read_text(text, each) for each in arguments if each is not type(None)]
        return next((each for each in options if each is not None), None)
    if origin is list or annotation is list:
        return _read_list(text, arguments[0] if arguments else str)
    text = text.strip("*_`\"' \n")
    if annotation is bool:
        return _BOOLEANS.get(_find_label(text, tuple(_BOOLEANS)) or "")
    if origin is Literal:
        label = _find_label(text, tuple(map(str, arguments)))
        return next((each for each in arguments if str(each) == label), None)
    if isinstance(annotation, enum.EnumMeta):
        members = {str(member.value): member for member in annotation}  # type: ignore[var-annotated]
        return members.get(_find_label(text, tuple(members)) or "")
    if annotation in (int, float) and (number := _NUMBER.fullmatch(text.rstrip(". "))):
        digits = number[1].replace(",", "")
        if annotation is float:
            return float(digits)
        whole, _, rest = digits.partition(".")
        return None if rest.strip("0") else int(whole)
    return None


def _find_label(text: str, labels: tuple[str, ...]) -> str | None:
    """Return the label that begins a text, if the rest is a remark without another label."""
    remark = r"\W*($|[.,;:(*\"'`\u2013\u2014]|\s-)"
    found = [label for label in labels if re.match(re.escape(label) + remark, text, re.IGNORECASE)]
    if not found:
        return None
    label = max(found, key=len)
    rest, others = text[len(label) :], "|".join(re.escape(each) for each in labels if each not in found)
    is_other = others and re.search(rf"\b(?:{others})(?:e?d)?\b", rest, re.IGNORECASE)
    return None if is_other or _BUT.search(rest) else label


def _read_list(text: str, kind: Any) -> list[object] | None:
    """Return the items of a text that begins with a bullet; other texts are prose, such as a refusal."""
    items: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if _BULLET.match(line):
            items.append(_BULLET.sub("", line, count=1).strip())
        elif items:
            items[-1] += f"\n{line.strip()}"
        else:
            return None
    try:
        return [read_value(item, kind) for item in items] or None
    except ValueError:
        return None


Call = tuple[str, dict[str, object]]  # name and arguments
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action", "next_tool_name")
_ARGUMENTS = ("arguments", "args", "parameters", "input", "tool_input", "action_input", "next_tool_args")
_XML_CALL = re.compile(r"<(?:function=|invoke name=\"|function name=\")(\w+)\"?>(.*?)</(?:function|invoke)>", re.DOTALL)
_XML_ARGUMENT = re.compile(r"<parameter(?:=| name=\")(\w+)\"?>\s*(.*?)\s*</parameter>", re.DOTALL)
MAX_CHARS = 100_000  # of a text that is searched


def find_calls(text: str, tools: Mapping[str, dspy.Tool], *, any_name: bool = False) -> list[Call]:
    """Return the calls in order; with `any_name` also those of unknown tools, if they are JSON."""
    if len(text) > MAX_CHARS or not (any_name or any(name in text for name in tools)):
        return []
    found = [(name, _read_xml(body, tools[name])) for name, body in _XML_CALL.findall(text) if name in tools]
    found += [call for value in find_objects(text) for call in _read_calls(value, any_name)]
    return [(name, arguments) for name, arguments in found if any_name or name in tools]


def _read_xml(body: str, tool: dspy.Tool) -> dict[str, object]:
    """Return the arguments; one that is not a string by the tool's schema is JSON."""
    found: list[tuple[str, str]] = _XML_ARGUMENT.findall(body)
    strings = {name for name, schema in (tool.args or {}).items() if schema.get("type") == "string"}
    return {name: value if name in strings else json_repair.loads(value) for name, value in found}


def find_objects(text: str) -> Iterator[object]:
    """Yield the outermost JSON objects and lists of objects; a faulty one with an end is repaired."""
    decoder, at, found = json.JSONDecoder(strict=False), 0, False
    text = text.replace("{{", "{").replace("}}}", "}}") if "{{" in text else text
    while (start := min((p for p in (text.find("{", at), text.find("[{", at)) if p >= 0), default=-1)) >= 0:
        try:
            value, at = decoder.raw_decode(text, start)
        except ValueError:
            at = start + 1
            continue
        found = True
        yield value
    if not found and "{" in text and text.rstrip("` \n").endswith("}"):
        yield json_repair.loads(text[text.index("{") :])


def _read_calls(value: object, needs_arguments: bool) -> Iterator[Call]:
    if isinstance(value, list):
        for each in value:
            yield from _read_calls(each, needs_arguments)
        return
    if not isinstance(value, dict):
        return
    if isinstance(calls := value.get("tool_calls"), list | dict):
        yield from _read_calls(calls, needs_arguments)
        return
    name = next((value[key] for key in _NAMES if key in value), None)
    if isinstance(name, dict):  # OpenAI's own form: {"function": {"name": …, "arguments": …}}
        yield from _read_calls(name, needs_arguments)
        return
    beside = {key: each for key, each in value.items() if key != "tool"} if "tool" in value else {}
    missing = beside or (None if needs_arguments else {})
    arguments: object = next((value[key] for key in _ARGUMENTS if key in value), missing)
    if isinstance(arguments, str):
        arguments = json_repair.loads(arguments)
    if isinstance(name, str) and isinstance(arguments, dict):
        yield name, arguments
