"""DSPy's chat format, with examples as the conversations that they were, and the system message written once.

DSPy shows an example of an agent that calls tools as a request and an answer, with neither call nor result, or with
"None" for them: that teaches not to call tools. Here an example with a history is rendered by what renders the real
conversation: request, tool calls, results, answer; native calls where the model has them, else text. Each request of
it begins with the line `mas.prompt_sets.demos.EXAMPLE`. Examples of agents without a history are DSPy's own, but for
inputs that
may be nothing: DSPy takes an example of a question without an attachment for one that lacks a part, and says so in it.

The top of the system message depends on the signature alone, and DSPy writes it anew for every request, with a pydantic
schema for each field: a twentieth of a run's CPU time.

A picture or sound stands beside the name of its file, once in a request: where the real conversation names it first. An
example never has one, whatever the file in it is called.

    with dspy.context(adapter=ChatAdapter(use_native_function_calling=True)): …
    ChatAdapter(beside={"map.png": dspy.Image("data:image/png;base64,…").format()})
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.adapters.types.base_type import CUSTOM_TYPE_START_IDENTIFIER, Type
from dspy.adapters.types.tool import ToolCallResults
from dspy.adapters.utils import annotation_allows_none, format_field_value

from mas.prompt_sets.demos import EXAMPLE, conversation

FILE = "file"  # the input that names the attachment
_SIGNATURES_KEPT = 256  # an optimiser makes a new one with every prompt that it tries
# DSPy takes what stands behind its mark for a picture or the like, to be fetched from anywhere: also in a page's text.
_HARMLESS = "<<CUSTOM-TYPE>>"
_TEXT_TYPES = {dspy.Tool, dspy.ToolCalls, ToolCallResults}
Parts = list[dict[str, Any]]  # of a message, as OpenAI's chat API has them


@dataclass(frozen=True)
class _Beside:
    """The value of the field `file` where the file itself is shown as well."""

    name: str
    parts: Parts


class _Shared:
    """What the two adapters have in common, before DSPy's own class of each."""

    beside: Mapping[str, Parts]  # bare name of an attachment → what is shown beside it

    def format(self, signature: Any, demos: list[Any], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        """`inputs` are the real conversation, its history included; the examples are left as they are."""
        shown = _with_files(inputs, self.beside)
        messages: list[dict[str, Any]] = super().format(signature, demos, shown)  # type: ignore[misc]
        return messages

    def format_user_message_content(self, signature: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The text; a list of parts if the message shows a file."""
        file = inputs.get(FILE)
        shown = file if isinstance(file, _Beside) else None
        told = inputs if shown is None else {**inputs, FILE: shown.name}
        text: str = super().format_user_message_content(signature, told, *args, **kwargs)  # type: ignore[misc]
        if _is_all_text(signature):
            text = text.replace(CUSTOM_TYPE_START_IDENTIFIER, _HARMLESS)
        return text if shown is None else _around(text, shown)

    def format_demos(self, signature: Any, demos: list[Any]) -> list[dict[str, Any]]:
        if _history(signature):
            return _examples(self, signature, demos)
        whole = [_with_nothing_said(demo, signature) for demo in demos]
        messages: list[dict[str, Any]] = super().format_demos(signature, whole)  # type: ignore[misc]
        return messages


class ChatAdapter(_Shared, dspy.ChatAdapter):
    """The same system message as DSPy's, character for character."""

    def __init__(self, *, use_native_function_calling: bool = False, beside: Mapping[str, Parts] | None = None) -> None:
        super().__init__(use_native_function_calling=use_native_function_calling)
        self.beside = beside or {}

    def format_system_message(self, signature: Any) -> str:
        return _system_message(signature)

    def _make_json_adapter_fallback(self) -> dspy.JSONAdapter:
        return JSONAdapter(self.use_native_function_calling, self.beside)


class JSONAdapter(_Shared, dspy.JSONAdapter):
    """What a reply that could not be read is asked for again with."""

    def __init__(self, use_native_function_calling: bool, beside: Mapping[str, Parts]) -> None:
        super().__init__(use_native_function_calling=use_native_function_calling)
        self.beside = beside


def _with_files(inputs: dict[str, Any], beside: Mapping[str, Parts]) -> dict[str, Any]:
    """The inputs, with the file beside its name where the conversation first gives that."""
    history = next((name for name, value in inputs.items() if isinstance(value, dspy.History)), "")
    turns = inputs[history].messages if history else []
    for index, turn in enumerate(turns):
        if _is_shown(turn, beside):
            seen = dspy.History(messages=[*turns[:index], _with_file(turn, beside), *turns[index + 1 :]])
            return {**inputs, history: seen}
    return _with_file(inputs, beside) if _is_shown(inputs, beside) else inputs


def _is_shown(values: dict[str, Any], beside: Mapping[str, Parts]) -> bool:
    name = values.get(FILE)  # of a signature that is not ours it may be anything
    return isinstance(name, str) and name in beside


def _with_file(values: dict[str, Any], beside: Mapping[str, Parts]) -> dict[str, Any]:
    name = values[FILE]
    return {**values, FILE: _Beside(name, beside[name])}


def _around(text: str, file: _Beside) -> Parts:
    """The message's text up to the file's name, the file, and the rest of the text."""
    before, name, after = text.rpartition(f"[[ ## {FILE} ## ]]\n{file.name}")
    texts = [{"type": "text", "text": each} for each in (before + name, after)]
    return [each for each in (texts[0], *file.parts, texts[1]) if each.get("text") != ""]


def _with_nothing_said(demo: Any, signature: Any) -> dict[str, Any]:
    """An example whose inputs that may be nothing, and are, say it in the words of a real request."""
    given = dict(demo.items())
    nothing = {
        name: format_field_value(field, None)
        for name, field in signature.input_fields.items()
        if name in given and given[name] is None and annotation_allows_none(field.annotation)
    }
    return {**given, **nothing}


def _examples(adapter: Any, signature: Any, demos: list[Any]) -> list[dict[str, Any]]:
    history = _history(signature)
    shown = signature.delete(history)
    messages: list[dict[str, Any]] = []
    for number, demo in enumerate(demos, 1):
        for turn in conversation(demo, signature, number):
            told = adapter.format_conversation_history(shown, history, {history: dspy.History(messages=[turn])})
            if turn.keys() & shown.input_fields.keys():
                told[0]["content"] = f"{EXAMPLE}\n\n{told[0]['content']}"
            messages.extend(told)
    return messages


def _history(signature: Any) -> str | None:
    """The name of the field that holds the conversation."""
    return next((name for name, field in signature.input_fields.items() if field.annotation is dspy.History), None)


@functools.lru_cache(_SIGNATURES_KEPT)
def _is_all_text(signature: Any) -> bool:
    """Whether no input of it is a picture or the like, for which DSPy's mark would stand in the text."""
    kinds = (field.annotation for field in signature.input_fields.values())
    return {kind for each in kinds for kind in Type.extract_custom_type_from_annotation(each)} <= _TEXT_TYPES


@functools.lru_cache(_SIGNATURES_KEPT)
def _system_message(signature: Any) -> str:
    return str(dspy.ChatAdapter().format_system_message(signature))
