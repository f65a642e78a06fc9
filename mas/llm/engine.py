"""Every request to a language model passes here: traced, and refused when the model cannot take it or the reply is no
whole answer.

DSPy asks an engine for one attempt at a time and keeps the retries to itself, so a retried request is two spans.
"""

import dataclasses
from typing import Any

from dspy._vendor.lm15.serde import message_to_dict, request_to_dict
from dspy._vendor.lm15.types import Part, Response
from dspy.lm15 import Request, TextPart, ToolCallPart

from mas.encodable import encodable
from mas.llm.errors import RefusedReplyError, TruncatedReplyError
from mas.llm.limits import Limits
from mas.tracing.trace import Span, span

MEDIA_KINDS = ("image", "audio", "video", "document", "binary")


class TracedEngine:
    """A synchronous engine with a span around each request. Copies share the connections."""

    def __init__(self, inner: Any, limits: Limits) -> None:
        self.inner, self.limits = inner, limits

    def complete(self, request: Request) -> Response:
        with span("lm", request.model, inputs=_request(request)) as current:
            self.limits.check_inputs(request)
            return _accept(request, self.inner.complete(request), self.limits, current)

    def __deepcopy__(self, memo: dict[int, Any]) -> "TracedEngine":
        return self


class TracedAsyncEngine:
    """The asynchronous counterpart."""

    def __init__(self, inner: Any, limits: Limits) -> None:
        self.inner, self.limits = inner, limits

    async def complete(self, request: Request) -> Response:
        with span("lm", request.model, inputs=_request(request)) as current:
            self.limits.check_inputs(request)
            return _accept(request, await self.inner.complete(request), self.limits, current)

    def __deepcopy__(self, memo: dict[int, Any]) -> "TracedAsyncEngine":
        return self


def _request(request: Request) -> dict[str, Any]:
    return {key: _without_media(value) for key, value in request_to_dict(request).items() if key != "model"}


def _without_media(value: Any) -> Any:
    """Megabytes of an image would be in the record once for every request that carries it."""
    if isinstance(value, list):
        return [_without_media(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in MEDIA_KINDS and isinstance(data := value.get("data"), str):
        return {**value, "data": f"[{len(data)} characters of base64]"}
    return {key: _without_media(item) for key, item in value.items()}


def _accept(request: Request, response: Response, limits: Limits, current: Span) -> Response:
    """Note what the reply cost and how it ended.

    Raises:
        TruncatedReplyError: it stopped at the token limit. DSPy alone would parse the fragment as an answer.
        RefusedReplyError: the provider withheld it.
        TruncatedPromptError: it answers a part of what was asked.
    """
    message = dataclasses.replace(response.message, parts=tuple(_mended(part) for part in response.message.parts))
    response = dataclasses.replace(response, message=message)
    current.outputs = message_to_dict(response.message)
    current.attributes |= {
        "finish_reason": response.finish_reason,
        "input_tokens": response.usage.input_tokens or 0,
        "output_tokens": response.usage.output_tokens or 0,
    }
    limits.check_whole(request, response.usage.input_tokens)
    if response.finish_reason == "length":
        raise TruncatedReplyError("the reply was cut off at the model's token limit", model=response.model)
    if response.finish_reason == "content_filter":
        raise RefusedReplyError("the provider's content filter withheld the reply", model=response.model)
    return response


def _mended(part: Part) -> Part:
    """No later prompt, log or database row could hold a lone surrogate."""
    if isinstance(part, TextPart):
        return dataclasses.replace(part, text=encodable(part.text))
    if isinstance(part, ToolCallPart):
        return dataclasses.replace(part, input=encodable(part.input))
    return part
