"""DSPy's native engine, bound to one OpenAI-compatible endpoint and to nothing else.

By itself the engine routes on a model's name and would send an unknown one to the provider it resembles. It also has
no form for audio, and takes a context overflow for one only where the server words it as OpenAI does.

    engine, async_engine = engines("http://127.0.0.1:8000/v1", "none", 4, 900.0, "max_tokens")
"""

import dataclasses
import functools
import re
from typing import Any

from dspy.clients.engines.lm15_engine import AsyncLM15Engine, LM15Engine, timeouts_for
from dspy.clients.lm15_boundary import request_kwargs
from dspy.lm15 import (
    AccessPolicy,
    AudioPart,
    ContextLengthError,
    InvalidRequestError,
    OpenAIChatCompat,
    ProviderDefinition,
    Request,
    Response,
    RouterConfig,
    TextPart,
)

PROVIDER = "model-server"
AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_OVERFLOW = re.compile(r"context[ _](?:length|size|window)", re.IGNORECASE)


@functools.cache
def create_chat_engines(
    base_url: str, api_key: str, max_connections: int, deadline_seconds: float, max_tokens_field: str
) -> tuple[Any, Any]:
    """The two engines of an endpoint; they and all their copies share its connections."""
    compat = dataclasses.replace(OpenAIChatCompat.preset("openai"), max_tokens_field=max_tokens_field)
    config = RouterConfig(
        providers=(ProviderDefinition.chat(AccessPolicy(provider=PROVIDER, base_url=base_url), compat=compat),),
        api_keys={PROVIDER: api_key},
        max_connections=max_connections,
        timeouts=timeouts_for(deadline_seconds),
    )
    return ChatEngine(config), AsyncChatEngine(config)


class _OneEndpoint:
    """Whatever the model is called, it is asked at this endpoint."""

    def resolve(self, model: str) -> Any:
        return super().resolve(f"{PROVIDER}:{model.partition('/')[2]}")  # type: ignore[misc]

    def _target(self, request: Request, *, streaming: bool = False) -> tuple[Any, Request]:
        provider, routed = super()._target(request, streaming=streaming)  # type: ignore[misc]
        return provider, _with_audio(routed)


class ChatEngine(_OneEndpoint, LM15Engine):
    def complete(self, request: Request) -> Response:
        try:
            return super().complete(request)
        except InvalidRequestError as error:
            raise _named(error) from error.__cause__


class AsyncChatEngine(_OneEndpoint, AsyncLM15Engine):
    async def complete(self, request: Request) -> Response:
        try:
            # As the class above does, but not in a thread: our key is a text, nothing is loaded here. A thread costs
            # 0.04 ms of CPU a call (measured), and the call then queues for the interpreter when that is busy.
            provider, routed = self._target(request)
            response: Response = await provider.complete(routed)
            return response
        except InvalidRequestError as error:
            raise _named(error) from error.__cause__


def _named(error: InvalidRequestError) -> InvalidRequestError:
    """The error under its right name: vLLM, llama.cpp and Ollama say only in words that the context is too short."""
    if isinstance(error, ContextLengthError) or not _OVERFLOW.search(error.message):
        return error
    return ContextLengthError(error.message, status=error.status, provider=error.provider)


def _with_audio(request: Request) -> Request:
    """The request with its messages as they go over the wire, if there is a sound among them.

    A text stands in for each sound while the engine's own code writes the messages.
    """
    sounds: dict[str, AudioPart] = {}

    def stand_in(part: Any) -> Any:
        if not isinstance(part, AudioPart):
            return part
        mark = f"[sound {len(sounds)} of {id(request)}]"
        sounds[mark] = part
        return TextPart(mark)

    messages = tuple(
        dataclasses.replace(message, parts=tuple(stand_in(part) for part in message.parts))
        for message in request.messages
    )
    if not sounds:
        return request
    silent = dataclasses.replace(request, messages=messages)
    wire = [_resounding(message, sounds) for message in request_kwargs(silent, "chat")["messages"]]
    extensions = {**(request.config.extensions or {}), "messages": wire}
    return dataclasses.replace(silent, config=dataclasses.replace(request.config, extensions=extensions))


def _resounding(message: dict[str, Any], sounds: dict[str, AudioPart]) -> dict[str, Any]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if not any(block.get("text") in sounds for block in blocks):
        return message
    return {**message, "content": [_block(block, sounds.get(block.get("text", ""))) for block in blocks]}


def _block(block: dict[str, Any], sound: AudioPart | None) -> dict[str, Any]:
    if sound is None:
        return block
    return {"type": "input_audio", "input_audio": {"data": sound.data, "format": AUDIO_FORMATS[sound.media_type]}}
