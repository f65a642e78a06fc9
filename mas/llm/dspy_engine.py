"""Everything in `mas/llm` that uses internals of DSPy: its engines, the types and errors of its vendored `lm15`.

No other module of `mas/llm` imports `dspy._vendor` or `dspy.clients`. The versions that this was written for are
checked on import (`mas/prompt_sets/dspy_internals.py`).

DSPy's native engine is bound here to one OpenAI-compatible endpoint: by itself it would choose the provider by the
model's name. It also gets a wire format for audio, and recognises replies that broke off and context overflows that
are not worded as OpenAI's.

    engine, async_engine = create_chat_engines("http://127.0.0.1:8000/v1", "none", 4, 900.0, "max_tokens")
"""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Mapping
from typing import Protocol

import dspy
from dspy._vendor.lm15.serde import message_to_dict, request_to_dict, response_from_dict, response_to_dict
from dspy._vendor.lm15.transports import ConnectError
from dspy._vendor.lm15.transports import TransportError as ConnectionFailure
from dspy._vendor.lm15.types import Part
from dspy.clients.engines import AsyncLiteLLMEngine, LiteLLMEngine
from dspy.clients.engines.lm15_engine import AsyncLM15Engine, LM15Engine, timeouts_for
from dspy.clients.lm15_boundary import request_kwargs
from dspy.lm15 import (
    AccessPolicy,
    AudioPart,
    AuthError,
    BillingError,
    ContextLengthError,
    InvalidRequestError,
    LM15Error,
    OpenAIChatCompat,
    ProviderDefinition,
    ProviderError,
    ProviderLM,
    RateLimitError,
    Request,
    Resolution,
    Response,
    RouterConfig,
    ServerError,
    TextPart,
    TransportError,
)

from mas.prompt_sets.dspy_internals import check_dspy_version

__all__ = [
    "AsyncEngine",
    "ConnectError",
    "ConnectionFailure",
    "Engine",
    "Part",
    "create_chat_engines",
    "create_litellm_engines",
    "message_to_dict",
    "request_to_dict",
    "response_from_dict",
    "response_to_dict",
]

check_dspy_version(dspy.__version__)
PROVIDER = "model-server"
AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
# How OpenAI, vLLM, llama.cpp, Ollama, Anthropic, Gemini, TGI, Bedrock, xAI and Cohere say that a prompt is too long.
_OVERFLOW = re.compile(
    r"context[ _](?:length|size|window)|(?:prompt|input) is too long|too many tokens|maximum (?:prompt|model) length"
    r"|tokens? (?:count \S+ )?exceeds? |inputs` (?:tokens|must have less)",
    re.IGNORECASE,
)
_REFUSALS_IN_A_REPLY: dict[str, type[ProviderError]] = {  # `error.code` of a router whose reply has the status 200
    "401": AuthError,
    "402": BillingError,
    "403": AuthError,
    "429": RateLimitError,
    "rate_limit_exceeded": RateLimitError,
    "insufficient_quota": BillingError,
}


class Engine(Protocol):
    """Sends one request, without retries. The part of DSPy's engine contract that our LMs use."""

    def complete(self, request: Request) -> Response: ...


class AsyncEngine(Protocol):
    """Asynchronous counterpart of `Engine`."""

    async def complete(self, request: Request) -> Response: ...


@functools.cache
def create_chat_engines(
    base_url: str, api_key: str, max_connections: int, deadline_seconds: float, max_tokens_field: str
) -> tuple[Engine, AsyncEngine]:
    """Return the engines of an endpoint; equal arguments give the same ones, which share their connections."""
    compat = dataclasses.replace(OpenAIChatCompat.preset("openai"), max_tokens_field=max_tokens_field)
    config = RouterConfig(
        providers=(ProviderDefinition.chat(AccessPolicy(provider=PROVIDER, base_url=base_url), compat=compat),),
        api_keys={PROVIDER: api_key},
        max_connections=max_connections,
        timeouts=timeouts_for(deadline_seconds),
    )
    return ChatEngine(config), AsyncChatEngine(config)


@functools.cache
def create_litellm_engines(
    api_key: str | None, base_url: str | None, deadline_seconds: float
) -> tuple[Engine, AsyncEngine]:
    """Return engines over LiteLLM, which is imported with the first request; equal arguments give the same ones."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import fetches a list of prices
    options: dict[str, object] = {"timeout": deadline_seconds}
    options |= {"api_key": api_key} if api_key else {}
    options |= {"api_base": base_url} if base_url else {}
    return LiteLLMEngine(**options), AsyncLiteLLMEngine(**options)


class _OneEndpoint:
    """Sends every request to the one endpoint of the configuration, whatever the model's name."""

    def resolve(self, model: str) -> Resolution:
        return super().resolve(f"{PROVIDER}:{model.partition('/')[2]}")  # type: ignore[misc]

    def _target(self, request: Request, *, streaming: bool = False) -> tuple[ProviderLM, Request]:
        provider, routed = super()._target(request, streaming=streaming)  # type: ignore[misc]
        return provider, _encode_audio(routed)


class ChatEngine(_OneEndpoint, LM15Engine):
    def complete(self, request: Request) -> Response:
        try:
            return super().complete(request)
        except ProviderError as error:
            raise _classify_error(error) from error.__cause__


class AsyncChatEngine(_OneEndpoint, AsyncLM15Engine):
    async def complete(self, request: Request) -> Response:
        try:
            # Like the base class, but without its thread for loading a key: ours is a text. A thread costs 0.04 ms of
            # CPU per call (measured), and the call then queues for the interpreter when that is busy.
            provider, routed = self._target(request)
            return await provider.complete(routed)
        except ProviderError as error:
            raise _classify_error(error) from error.__cause__


def _classify_error(error: ProviderError) -> LM15Error:
    """Return a more exact error where there is one.

    A ContextLengthError where vLLM, llama.cpp or Ollama say only in words that the context is too short; a
    TransportError for a reply that lost its end on the way, which is a 200 with half of its JSON or nothing at all.
    """
    if error.status is None and (kind := _REFUSALS_IN_A_REPLY.get(error.provider_code or "")):
        return kind(error.message, provider=error.provider, provider_code=error.provider_code)
    if isinstance(error, InvalidRequestError | ServerError):
        if isinstance(error, ContextLengthError) or not _OVERFLOW.search(error.message):
            return error
        return ContextLengthError(error.message, status=error.status, provider=error.provider)
    if type(error) is ProviderError and _is_broken_off(error.__cause__):
        return TransportError(f"the reply broke off: {error.message}", status=error.status, provider=error.provider)
    return error


def _is_broken_off(cause: BaseException | None) -> bool:
    """Return whether JSON could not be read because its end, or all of it, is missing; a page of HTML is complete."""
    if isinstance(cause, json.JSONDecodeError):
        return cause.doc.lstrip()[:1] in ("", "{", "[")
    return isinstance(cause, UnicodeDecodeError)  # cut within a character


def _encode_audio(request: Request) -> Request:
    """Return the request with its messages in wire format if they contain audio.

    The engine encodes the messages with a placeholder text for each sound, which is then replaced.
    """
    sounds: dict[str, AudioPart] = {}

    def replace_sound(part: Part) -> Part:
        if not isinstance(part, AudioPart):
            return part
        placeholder = f"[sound {len(sounds)} of {id(request)}]"
        sounds[placeholder] = part
        return TextPart(placeholder)

    messages = tuple(
        dataclasses.replace(message, parts=tuple(replace_sound(part) for part in message.parts))
        for message in request.messages
    )
    if not sounds:
        return request
    silent = dataclasses.replace(request, messages=messages)
    wire = [_insert_sounds(message, sounds) for message in request_kwargs(silent, "chat")["messages"]]
    extensions = {**(request.config.extensions or {}), "messages": wire}
    return dataclasses.replace(silent, config=dataclasses.replace(request.config, extensions=extensions))


def _insert_sounds(message: Mapping[str, object], sounds: Mapping[str, AudioPart]) -> Mapping[str, object]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list) or not any(block.get("text") in sounds for block in blocks):
        return message
    return {**message, "content": [_encode_block(block, sounds.get(block.get("text", ""))) for block in blocks]}


def _encode_block(block: Mapping[str, object], sound: AudioPart | None) -> Mapping[str, object]:
    if sound is None:
        return block
    return {"type": "input_audio", "input_audio": {"data": sound.data, "format": AUDIO_FORMATS[sound.media_type]}}
