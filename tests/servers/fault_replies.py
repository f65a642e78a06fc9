"""What a failing model server sends, each fault under its name; and what it sends when nothing is wrong.

The words of the refusals are the servers' own: OpenAI's error reference, vLLM's and llama.cpp's sources.

    FAULTS["429_retry_after_1"].headers         # {"Retry-After": "1"}
    FAULTS["length"].answer(request).body       # a whole answer that the server says is cut off
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.servers.chat_reply import complete, list_outputs, refusal, wants_json, write_fields
from tests.servers.loopback import DRIP, HTML, Answer, Way

ANSWER = "42"
HUGE_CHARS = 20_000_000
GARBAGE = "\ud83d\u202e\x00\udc00"  # two halves of surrogate pairs, a turn of direction and a NUL

VALUES: dict[str, Any] = {  # output fields of all systems: any question ends with ANSWER, which is all others, too
    "steps": ["Work out 6 * 7."],
    "working": "6 * 7 = 42.",
    "result": "42",
    "research_steps": [],
    "expert_steps": ["Work out 6 * 7."],
    "decision": "approve",
    "feedback": "Complete.",
    "expert_answer": ANSWER,
    "reasoning_trace": "It is the product.",
    "final_answer": ANSWER,
    "final_reasoning_trace": "6 * 7 = 42.",
}


@dataclass(frozen=True)
class Fault:
    body: bytes | Callable[[bytes], bytes] = b""  # the latter: made of the request's
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    way: Way = "whole"

    def answer(self, request: bytes) -> Answer:
        body = self.body if isinstance(self.body, bytes) else self.body(request)
        return Answer(body, self.status, {"Content-Type": "application/json", **self.headers}, self.way)


def right_text(request: bytes) -> str:
    """A whole reply to a DSPy request, in the format that it asks for."""
    system = str(json.loads(request)["messages"][0]["content"])
    return write_fields({name: VALUES.get(name, ANSWER) for name in list_outputs(system)}, wants_json(system))


def _completion(content: str | None, reason: str = "stop", **changes: Any) -> bytes:
    return json.dumps(complete(content, model="faults", tokens=(100, 20), reason=reason, **changes)).encode()


def _ok(request: bytes) -> bytes:
    return _completion(right_text(request))


def _length(request: bytes) -> bytes:
    """All fields are there, so that DSPy would take it for an answer; only the end mark is not."""
    return _completion(right_text(request).removesuffix("[[ ## completed ## ]]"), "length")


def _surrogates(request: bytes) -> bytes:
    return _completion(_stuffed(right_text(request), GARBAGE))


def _huge(request: bytes) -> bytes:
    return _completion(_stuffed(right_text(request), "A" * HUGE_CHARS))


def _stuffed(text: str, more: str) -> str:
    """With `more` in one of its values, and none of them the answer: that can still be right."""
    return next(text.replace(part, part + more, 1) for part in ("6 * 7", "It is", "Complete", "42") if part in text)


def _refusal(status: int, message: str, kind: str = "server_error", code: str | None = None, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(json.dumps(refusal(message, code, kind)).encode(), status, named)


_rate_limited = functools.partial(
    _refusal, 429, "Rate limit reached for requests per min (RPM): Limit 500", "requests", "rate_limit_exceeded"
)
_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_MAXIMUM = "This model's maximum context length is 8192 tokens. "
_VLLM_OVERFLOW = (
    f"{_MAXIMUM}However, you requested 9000 tokens in the messages, Please reduce the length of the messages."
)
_LLAMA_OVERFLOW = "the request exceeds the available context size. try increasing the context size or enable shift"
_ERROR_OBJECT = {"error": {"message": "The engine is currently overloaded", "type": "server_error", "code": 500}}

OK_REPLY = Fault(_ok)
FAULTS: dict[str, Fault] = {
    "429": _rate_limited(),
    "429_retry_after_1": _rate_limited(Retry_After="1"),
    "429_retry_after_3600": _rate_limited(Retry_After="3600"),
    "quota": _refusal(429, _QUOTA, "insufficient_quota", "insufficient_quota"),
    "400": _refusal(400, "Invalid value for 'messages'.", "invalid_request_error"),
    "401": _refusal(401, "Incorrect API key provided: sk-***.", "invalid_request_error", "invalid_api_key"),
    "403": _refusal(403, "You are not allowed to sample from this model.", "invalid_request_error"),
    "404": _refusal(404, "The model `faults` does not exist.", "invalid_request_error", "model_not_found"),
    "500": _refusal(500, "The server had an error while processing your request."),
    "502": Fault(b"<html><h1>502 Bad Gateway</h1></html>", 502, HTML.headers),
    "503": _refusal(503, "The engine is currently overloaded, please try again later."),
    "529": _refusal(529, "Overloaded", "overloaded_error"),
    "hang": Fault(way="hang"),
    "drip": Fault(DRIP.body, way="drip"),
    "reset": Fault(way="reset"),
    "cut": Fault(_ok, way="cut"),
    "html": Fault(HTML.body, headers=HTML.headers),
    "bad_json": Fault(b'{"id": "c", "choices": [{"index": 0, "mess'),
    "error_in_200": Fault(json.dumps(_ERROR_OBJECT).encode()),
    "no_choices": Fault(_completion("", choices=[])),
    "null_choices": Fault(_completion("", choices=None)),
    "null_content": Fault(_completion(None)),
    "empty_content": Fault(_completion("")),
    "gibberish": Fault(_completion("I would rather talk about the weather.")),
    "length": Fault(_length),
    "content_filter": Fault(_completion("", "content_filter")),
    "overflow_openai": _refusal(
        400,
        _MAXIMUM + "However, your messages resulted in 9000 tokens.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
    "overflow_vllm": _refusal(400, _VLLM_OVERFLOW, "BadRequestError"),
    "overflow_llama_cpp": _refusal(400, _LLAMA_OVERFLOW, "exceed_context_size_error"),
    "surrogates": Fault(_surrogates),
    "huge": Fault(_huge),
}
