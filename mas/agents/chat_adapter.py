"""DSPy's chat format, with worked examples as conversations, and cached system messages.

DSPy shows an example of an agent with tools without its calls and results, which teaches the model not to call any.
Here an example with a history is rendered as the real conversation is, below the line `mas.prompt_sets.EXAMPLE`.
A reply that cannot be read is asked for once more, as JSON, with the schema of the fields unless the server is known to
refuse one.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any

import dspy
import pydantic
from dspy.utils.exceptions import AdapterParseError, LMInvalidRequestError, LMUnsupportedFeatureError

from mas.prompt_sets import EXAMPLE
from mas.prompt_sets.dspy_internals import CUSTOM_TYPE_START_IDENTIFIER
from mas.runtime.trace import NEARLY_RIGHT, SCHEMA_REFUSED, event

_MAX_SIGNATURES = 256  # in each cache; an optimizer makes a new one with every prompt that it tries
# After its mark DSPy expects a picture or the like, to be fetched from anywhere: also in a page's text.
_HARMLESS = "<<CUSTOM-TYPE>>"
_TEXT_TYPES = {dspy.Tool, dspy.ToolCalls, dspy.ToolCallResults}
Message = dict[str, object]  # of a request, as OpenAI's chat API has them
Signature = type[dspy.Signature]
Turn = dict[str, Any]  # of a `dspy.History`: inputs and outputs of the signature by name
Options = dict[str, object]  # of a request
_REFUSALS = (LMInvalidRequestError, LMUnsupportedFeatureError)
_COMPLETED = re.compile(
    r"\[+[ \t]*#+[ \t]*completed[ \t]*#+[ \t]*\]+|\[\[[ \t]*#*[ \t]*completed[ \t]*#*[ \t]*\]\]", re.IGNORECASE
)
_TOKENS = "im_end|eot_id|eom_id|end|endoftext|return|end_of_text|end_of_solution"
_TEMPLATE_END = re.compile(rf"(?:\s*(?:<\|(?:{_TOKENS})\|>|</s>|<end_of_turn>|<eos>))+\s*$")


def cut_end(text: str) -> str:
    """Return a reply without its end marker, DSPy's or the chat template's, and what comes after it."""
    return _TEMPLATE_END.sub("", _COMPLETED.split(text, maxsplit=1)[0] or text)


class _Formatting:
    """Formatting that both adapters share; it comes before DSPy's own class of each."""

    plain_demos: bool  # True: worked examples as DSPy's own: users' programs send the same without us

    def format_user_message_content(self, signature: Signature, inputs: Turn, *args: object, **kwargs: object) -> str:
        text: str = super().format_user_message_content(signature, inputs, *args, **kwargs)  # type: ignore[misc]
        is_all_text = _is_all_text(signature)  # type: ignore[arg-type]
        return text.replace(CUSTOM_TYPE_START_IDENTIFIER, _HARMLESS) if is_all_text else text

    def format_demos(self, signature: Signature, demos: Sequence[dspy.Example]) -> list[Message]:
        history: str | None = self._get_history_field_name(signature)  # type: ignore[attr-defined]
        if history and not self.plain_demos:
            return _format_examples(self, signature, history, demos)
        shown = demos if self.plain_demos else [_fill_empty_inputs(demo, signature) for demo in demos]
        messages: list[Message] = super().format_demos(signature, shown)  # type: ignore[misc]
        return messages

    def parse(self, signature: Signature, completion: str) -> dict[str, object]:
        """Return the output fields, also of a reply that nearly has the form."""
        text = cut_end(completion)
        try:
            values: dict[str, object] = super().parse(signature, text)  # type: ignore[misc]
        except AdapterParseError:
            from mas.agents.nearly_right import read_fields  # loaded for the first such reply

            if (meant := read_fields(signature, text)) is None:
                raise
            event(NEARLY_RIGHT)
            return meant
        return values


class ChatAdapter(_Formatting, dspy.ChatAdapter):
    """Adapter of all our programs. Its system message is DSPy's, character for character."""

    def __init__(self, *, use_native_function_calling: bool = False, plain_demos: bool = False) -> None:
        super().__init__(use_native_function_calling=use_native_function_calling)
        self.plain_demos = plain_demos

    def format_system_message(self, signature: Signature) -> str:
        return _format_system_message(signature)  # type: ignore[arg-type]

    def _make_json_adapter_fallback(self) -> dspy.Adapter:
        return JSONAdapter(self)


class JSONAdapter(_Formatting, dspy.JSONAdapter):
    """Adapter that asks for JSON: after a reply that could not be read."""

    def __init__(self, first: ChatAdapter) -> None:
        super().__init__(use_native_function_calling=first.use_native_function_calling)
        self.plain_demos = first.plain_demos

    def _prepare_response_format(self, lm: dspy.BaseLM, lm_kwargs: Options, signature: Signature) -> None:
        if not _has_open_keys(signature):  # type: ignore[arg-type]
            super()._prepare_response_format(lm, lm_kwargs, signature)

    def __call__(self, lm: dspy.BaseLM, lm_kwargs: Options, *args: object, **kwargs: object) -> Any:
        had_schema = getattr(lm, "takes_schema", False)
        try:
            return super().__call__(lm, dict(lm_kwargs), *args, **kwargs)
        except _REFUSALS as error:
            _give_up_schema(lm, had_schema, error)
        return super().__call__(lm, lm_kwargs, *args, **kwargs)

    async def acall(self, lm: dspy.BaseLM, lm_kwargs: Options, *args: object, **kwargs: object) -> Any:
        had_schema = getattr(lm, "takes_schema", False)
        try:
            return await super().acall(lm, dict(lm_kwargs), *args, **kwargs)
        except _REFUSALS as error:
            _give_up_schema(lm, had_schema, error)
        return await super().acall(lm, lm_kwargs, *args, **kwargs)


@functools.lru_cache(_MAX_SIGNATURES)
def _has_open_keys(signature: Signature) -> bool:
    """Return whether an output has keys that its type does not name: DSPy's schema forbids them."""
    try:
        schemas = [pydantic.TypeAdapter(each.annotation).json_schema() for each in signature.output_fields.values()]
    except (pydantic.PydanticUserError, pydantic.PydanticSchemaGenerationError):
        return True
    return any(map(_is_open, schemas))


def _is_open(schema: object) -> bool:
    if isinstance(schema, list):
        return any(map(_is_open, schema))
    if not isinstance(schema, dict):
        return False
    is_object = schema.get("type") == "object"
    named = bool(schema.get("properties")) and not schema.get("additionalProperties")
    return (is_object and not named) or any(map(_is_open, schema.values()))


def _give_up_schema(
    lm: dspy.BaseLM, had_schema: bool, error: LMInvalidRequestError | LMUnsupportedFeatureError
) -> None:
    """Let the LM send no schema any more if the error is about the request's; else raise the error."""
    if not had_schema or not any(word in error.message.lower() for word in ("response_format", "schema", "grammar")):
        raise error
    lm.takes_schema = False
    event(SCHEMA_REFUSED, reason=error.message)


def _fill_empty_inputs(demo: dspy.Example, signature: Signature) -> Turn:
    """Return an example with empty inputs as in a request: DSPy would label it as incomplete."""
    given = dict(demo.items())
    return given | {name: "None" for name in signature.input_fields if given.get(name, "") is None}


def _format_examples(
    adapter: dspy.Adapter, signature: Signature, history: str, demos: Sequence[dspy.Example]
) -> list[Message]:
    from mas.prompt_sets.demos import list_turns

    without_history = signature.delete(history)
    messages: list[Message] = []
    for number, demo in enumerate(demos, 1):
        for turn in list_turns(demo, signature, number):
            conversation = {history: dspy.History(messages=[turn])}
            rendered = adapter.format_conversation_history(without_history, history, conversation)
            if turn.keys() & without_history.input_fields.keys():
                rendered[0]["content"] = f"{EXAMPLE}\n\n{rendered[0]['content']}"
            messages.extend(rendered)
    return messages


@functools.lru_cache(_MAX_SIGNATURES)
def _is_all_text(signature: Signature) -> bool:
    """Return True if no input is a picture or the like, for which the text holds DSPy's mark."""
    kinds = (field.annotation for field in signature.input_fields.values())
    return {kind for each in kinds for kind in dspy.Type.extract_custom_type_from_annotation(each)} <= _TEXT_TYPES


@functools.lru_cache(_MAX_SIGNATURES)  # DSPy's schemas took a twentieth of a run's CPU time
def _format_system_message(signature: Signature) -> str:
    return str(dspy.ChatAdapter().format_system_message(signature))
