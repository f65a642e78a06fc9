"""DSPy's chat format, with examples as the conversations that they were, and the system message written once.

DSPy shows an example of an agent that calls tools as a request and an answer, with neither call nor result, or with
"None" for them: that teaches not to call tools. Here an example with a history is rendered by what renders the real
conversation: request, tool calls, results, answer; native calls where the model has them, else text. Each request of
it begins with the line `mas.demos.EXAMPLE`. Examples of agents without a history are DSPy's own.

The top of the system message depends on the signature alone, and DSPy writes it anew for every request, with a pydantic
schema for each field: a twentieth of a run's CPU time.

    with dspy.context(adapter=ChatAdapter(use_native_function_calling=True)): …
"""

import functools
from typing import Any

import dspy

from mas.demos import EXAMPLE, conversation

_SIGNATURES_KEPT = 256  # an optimiser makes a new one with every prompt that it tries


class ChatAdapter(dspy.ChatAdapter):
    """The same system message as DSPy's, character for character."""

    def format_system_message(self, signature: Any) -> str:
        return _system_message(signature)

    def format_demos(self, signature: Any, demos: list[Any]) -> list[dict[str, Any]]:
        return _examples(self, signature, demos) if _history(signature) else super().format_demos(signature, demos)

    def _make_json_adapter_fallback(self) -> dspy.JSONAdapter:
        return JSONAdapter(self.use_native_function_calling, self.parallel_tool_calls)


class JSONAdapter(dspy.JSONAdapter):
    """What a reply that could not be read is asked for again with."""

    def __init__(self, use_native_function_calling: bool, parallel_tool_calls: bool | None = None) -> None:
        super().__init__(
            use_native_function_calling=use_native_function_calling, parallel_tool_calls=parallel_tool_calls
        )

    def format_demos(self, signature: Any, demos: list[Any]) -> list[dict[str, Any]]:
        return _examples(self, signature, demos) if _history(signature) else super().format_demos(signature, demos)


def _examples(adapter: dspy.Adapter, signature: Any, demos: list[Any]) -> list[dict[str, Any]]:
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
def _system_message(signature: Any) -> str:
    return str(dspy.ChatAdapter().format_system_message(signature))
