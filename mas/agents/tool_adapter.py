"""The conversation of an agent with tools: a step is a tool call or the answer, and requests only grow.

DSPy asks for the output fields in every message, and small models then call no tool. Here the system message says once
which of the two is due, and lists tools that go as text; each request begins with the whole of the one before.

    native: tools in the request, calls beside the text
    text:   {"tool": "calculator", "arguments": {"expression": "6*7"}}
    answer: its fields after their headers, as DSPy has them; a JSON object of the fields is read as well

A call that a model writes into its text is made. After a reply that is neither call nor answer, the model sees it again
with what is expected, once. Qwen2.5-Coder 1.5B showed what matters: asked for one JSON object either way it called a
tool in 2 of 8 requests, with two forms in 8 of 8; and it repeats its call unless a result ends with the answer's form.
"""

import inspect
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from mas.agents.chat_adapter import ChatAdapter, Message, Signature
from mas.agents.nearly_right import find_calls, find_objects, read_value
from mas.llm import ASKS_AGAIN
from mas.prompt_sets.demos import Turn
from mas.prompt_sets.dspy_internals import get_field_description_string
from mas.runtime.trace import CALL_IN_TEXT, event

Tools = Mapping[str, dspy.Tool]  # by name
Parts = list[dict[str, object]]  # of a message
FILE = "file"  # the input that names the attachment
STEP = "Do one of two things."  # begins what follows the instructions in the system message
MAX_SHOWN_CHARS = 8_000  # of an unreadable reply
_NATIVE_CALL = "If you need a tool, call it and write nothing else."
_TEXT_CALL = 'If you need a tool, write one JSON object, {"tool": "<name>", "arguments": {...}}, and nothing else.'
_ANSWER = (
    "Only when you have what you need, write your output fields, each after its header such as [[ ## %s ## ]], and end "
    "with [[ ## completed ## ]]."
)
_HEADER = re.compile(r"\[\[ ## (\w+) ## \]\](?:[ \t]*[:=,](?=\s))?")
_END = "Respond with a tool call now%s, or with your output fields."
_AFTER_RESULTS = (
    "Respond with your output fields if this is what you need:\n\n%s\n\nElse respond with the next tool call%s."
)
_ALONE = " (the JSON object alone)"  # with tools as text
NO_MORE_TOOLS = "\n\n[No more tool calls are allowed: give the answer now, from what you have.]"  # ends a result
_AFTER_LAST = "Respond with your output fields:\n\n%s"
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}


class ToolAdapter(ChatAdapter):
    """Adapter of one request of an agent whose signature has the fields `tools` and `tool_calls`."""

    def __init__(
        self, tools: Tools, *, native: bool, files: Mapping[str, Parts] | None = None, unreadable: str = ""
    ) -> None:
        super().__init__(use_native_function_calling=native or not tools)
        self.tools = tools
        self.files = files or {}  # pictures and sounds, by the bare name of the attachment
        self.form = ""  # of an answer
        self.unreadable = unreadable  # the reply that this request comes after
        self.use_json_adapter_fallback = not unreadable

    def _make_json_adapter_fallback(self) -> dspy.Adapter:
        """Return the adapter that asks again after an unreadable reply, in the same format."""
        native = self.use_native_function_calling
        return ToolAdapter(self.tools, native=native, files=self.files, unreadable=self.unreadable or "(nothing)")

    def _call_preprocess(
        self, lm: dspy.BaseLM, lm_kwargs: dict[str, object], signature: Signature, inputs: Turn
    ) -> Signature:
        processed: Signature = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        for name in ("tools", "tool_calls"):
            processed = processed.delete(name)
        return processed

    def format(self, signature: Signature, demos: Sequence[dspy.Example], inputs: Turn) -> list[Message]:
        headers = [f"[[ ## {name} ## ]]" for name in (*signature.output_fields, "completed")]
        self.form = "\n...\n\n".join(headers)
        messages: list[Message] = super().format(signature, demos, inputs)
        if self.files:
            _show_file(messages[1 + len(self.format_demos(signature, demos)) :], self.files)
        if self.unreadable:
            describe = self._describe_step if self.tools else self.user_message_output_requirements
            messages.append({"role": "assistant", "content": self.unreadable})
            messages.append({"role": "user", "content": f"{ASKS_AGAIN} {describe(signature)}\n\n{self.form}"})
        return messages

    def format_system_message(self, signature: Signature) -> str:
        if not self.tools:
            return super().format_system_message(signature)
        fields = get_field_description_string(signature.output_fields)
        parts = [signature.instructions, self._describe_step(signature), f"Your output fields are:\n{fields}"]
        if not self.use_native_function_calling:
            parts.append("\n\n".join(["Your tools are:", *map(_describe_tool, self.tools.values())]))
        return "\n\n".join(parts)

    def _describe_step(self, signature: Signature) -> str:
        call = _NATIVE_CALL if self.use_native_function_calling else _TEXT_CALL
        return f"{STEP} {call} {_ANSWER % next(iter(signature.output_fields))}"

    def user_message_output_requirements(self, signature: Signature) -> str:
        if not self.tools:
            text: str = super().user_message_output_requirements(signature)
            return text
        return _END % ("" if self.use_native_function_calling else _ALONE)

    def format_user_message_content(self, signature: Signature, inputs: Turn, *args: object, **kwargs: object) -> str:
        if isinstance(results := inputs.get("tool_call_results"), dspy.ToolCallResults):  # with tools as text
            shown = [f"Result of {each.name}:\n{each.value}" for each in results.tool_call_results]
            return "\n\n".join([*shown, self._ask_after(results)])
        if not inputs.keys() & signature.input_fields.keys():  # no message with the reminder alone
            return ""
        return super().format_user_message_content(signature, inputs, *args, **kwargs)

    def _ask_after(self, results: dspy.ToolCallResults) -> str:
        shown = results.tool_call_results
        if any(each.value.endswith(NO_MORE_TOOLS) for each in shown):
            return _AFTER_LAST % self.form
        if all(each.is_error for each in shown):  # the form would be copied, unfilled
            return _END % _ALONE
        return _AFTER_RESULTS % (self.form, _ALONE)

    def format_assistant_message_content(
        self, signature: Signature, outputs: Turn, missing_field_message: str | None = None
    ) -> str:
        if not self.use_native_function_calling and (calls := outputs.get("tool_calls")) and calls.tool_calls:
            return "\n".join(_dump({"tool": call.name, "arguments": call.args}) for call in calls.tool_calls)
        text: str = super().format_assistant_message_content(signature, outputs, missing_field_message)
        return text

    def _call_postprocess(
        self, processed: Signature, signature: Signature, outputs: list[object], *more: object
    ) -> list[dict[str, object]]:
        outputs = [self._read_calls(output, processed) for output in outputs]
        values: list[dict[str, object]] = super()._call_postprocess(processed, signature, outputs, *more)
        return values

    def _read_calls(self, output: object, signature: Signature) -> object:
        """Return a reply whose text holds tool calls as one that makes them."""
        text = output.get("text") if isinstance(output, dict) else output
        if not isinstance(text, str) or (isinstance(output, dict) and output.get("tool_calls")):
            return output
        # In the form asked for, a tool that does not exist is called as well: the result says so.
        any_name = not self.use_native_function_calling
        if self._read_answer(text, signature) or not (calls := find_calls(text, self.tools, any_name=any_name)):
            return output
        if self.use_native_function_calling:
            event(CALL_IN_TEXT, tools=[name for name, _ in calls])
        functions = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
        return {"text": None, "tool_calls": functions}

    def parse(self, signature: Signature, completion: str) -> dict[str, object]:
        """Return the answer's fields; texts after the first field may be missing and are empty then."""
        self.unreadable = completion[:MAX_SHOWN_CHARS]
        found, values = self._read_answer(completion, signature), {}
        for index, (name, field) in enumerate(signature.output_fields.items()):
            if name not in found and (index == 0 or field.annotation is not str):
                message = f"The reply called no tool and gave no {name}."
                raise AdapterParseError("ToolAdapter", signature, completion, message)
            try:
                values[name] = read_value(found.get(name, ""), field.annotation)
            except ValueError as error:
                raise AdapterParseError("ToolAdapter", signature, completion, f"{name}: {error}") from error
        self.unreadable = ""
        return values

    def _read_answer(self, text: str, signature: Signature) -> Turn:
        """Return the answer's fields in a reply of either form; nothing if it calls a tool first."""
        sections = _HEADER.split(text)
        if len(sections) > 1 and find_calls(sections[0], self.tools):
            return {}  # what follows the call is made up: there was no result yet
        fields: Turn = {}
        for name, value in zip(sections[1::2], sections[2::2], strict=True):
            if name in signature.output_fields and not _is_blank(value) and not self._is_call(value):
                fields.setdefault(name, value.strip())
        objects = () if fields or "{" not in text else find_objects(text)
        for value in objects:
            if not isinstance(value, dict) or find_calls(json.dumps(value), self.tools):
                break
            # Some models call their answer a tool: {"tool": "final_answer", "arguments": {"final_answer": "42"}}
            arguments = value.get("arguments")
            for given in (value, arguments if isinstance(arguments, dict) else {}):
                fields = {name: given[name] for name in signature.output_fields if not _is_blank(given.get(name))}
                if fields:
                    return fields
        return fields

    def _is_call(self, value: str) -> bool:
        return value.lstrip()[:1] in "{[<`" and bool(find_calls(value, self.tools))


def _show_file(messages: Sequence[Message], files: Mapping[str, Parts]) -> None:
    """Put the file next to its name where the conversation first names it."""
    for message, (name, parts) in itertools.product(messages, files.items()):
        content = message["content"]
        if message["role"] == "user" and isinstance(content, str):
            before, named, after = content.rpartition(f"[[ ## {FILE} ## ]]\n{name}")
            if named:
                shown: Parts = [{"type": "text", "text": before + named}, *parts, {"type": "text", "text": after}]
                message["content"] = [part for part in shown if part.get("text") != ""]
                return


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip(" .\n"))  # "...": copied from the form


def _describe_tool(tool: dspy.Tool) -> str:
    """Return the tool as Python writes a function; its JSON Schema has half as many tokens more."""
    required = tool.format_as_litellm_function_call()["function"]["parameters"]["required"]
    arguments = tool.args or {}
    shown = [f"{name}{'' if name in required else '?'}: {_name_type(schema)}" for name, schema in arguments.items()]
    described = [f"{name}: {text}" for name, schema in arguments.items() if (text := schema.get("description"))]
    return "\n".join([f"- {tool.name}({', '.join(shown)})", inspect.cleandoc(tool.desc or ""), *described])


def _name_type(schema: Mapping[str, Any]) -> str:
    """Return the type of an argument; the schema itself where no short name says it."""
    if "anyOf" in schema:
        return " | ".join(_name_type(each) for each in schema["anyOf"] if each != {"type": "null"})
    if "enum" in schema:
        return " | ".join(map(_dump, schema["enum"]))
    if isinstance(schema.get("type"), list):
        return " | ".join(_name_type({**schema, "type": each}) for each in schema["type"] if each != "null")
    if schema.get("type") == "array" and "items" in schema:
        return f"list[{_name_type(schema['items'])}]"
    if schema.get("type") in _TYPES and "properties" not in schema:
        return _TYPES[schema["type"]]
    return _dump({key: value for key, value in schema.items() if key not in ("default", "description")})


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
