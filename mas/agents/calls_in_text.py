"""Tool calls that a model has written into its text instead of calling natively, in the forms that were seen.

    find_calls('```json\\n{"name": "calculator", "arguments": {"expression": "6*7"}}\\n```', tools)
    # [("calculator", {"expression": "6*7"})]

JSON with `name` and `arguments` (or words to that effect), also fenced, with doubled braces or in the tags of Hermes;
the XML of Qwen Coder and of Anthropic.
"""

import json
import re
from collections.abc import Iterator, Mapping

import dspy
import json_repair

Call = tuple[str, dict[str, object]]  # name and arguments
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action", "next_tool_name")
_ARGUMENTS = ("arguments", "args", "parameters", "input", "tool_input", "action_input", "next_tool_args")
_XML_CALL = re.compile(r"<(?:function=|invoke name=\"|function name=\")(\w+)\"?>(.*?)</(?:function|invoke)>", re.DOTALL)
_XML_ARGUMENT = re.compile(r"<parameter(?:=| name=\")(\w+)\"?>\s*(.*?)\s*</parameter>", re.DOTALL)
MAX_CHARS = 100_000  # of a text that is searched


def find_calls(text: str, tools: Mapping[str, dspy.Tool], *, any_name: bool = False) -> list[Call]:
    """Return the calls in their order; with `any_name` also, in JSON, those of tools that there are not."""
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
    """Yield the outermost JSON objects and lists of objects in a text; a faulty one is repaired if it has an end."""
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
