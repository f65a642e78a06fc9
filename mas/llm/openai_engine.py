"""OpenAI-compatible servers, reached by OpenAI's own client without its retries.

DSPy's `lm15` writes the body of a request and reads that of a reply. Errors are more exact than the client's: a prompt
that is too long, whatever words the server has for it; a refusal inside a reply of status 200; a reply that broke off.

    engine = create_chat_engine("http://127.0.0.1:8000/v1", None, 4, 900.0, "max_tokens")
    response = await engine.complete(request)

The module takes half a second to import, so it is for models that need it.
"""

import asyncio
import dataclasses
import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx2
import openai
from dspy.lm15 import (
    AudioPart,
    ContextLengthError,
    ImagePart,
    InvalidRequestError,
    LM15Error,
    OpenAIChatCompat,
    OpenAIChatLM,
    ProviderError,
    RateLimitError,
    Request,
    Response,
    ServerError,
    TransportError,
)
from dspy.lm15 import TimeoutError as ServerTimeoutError

from mas.llm.dspy_engine import HttpResponse, NeverSentError, Part

CONNECT_SECONDS = 10.0
AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_NO_CONNECTION = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
# How the servers say that a prompt is too long: OpenAI, vLLM, llama.cpp, Ollama, LM Studio, SGLang, Anthropic, Gemini,
# TGI, Bedrock, xAI, Cohere, Mistral, Groq, Cerebras, Moonshot, DashScope, Zhipu, Databricks, GitHub, Cloudflare.
_OVERFLOW = re.compile(
    r"context[ _](?:length|size|window|limit)|(?:prompt|input|prompt tokens) (?:is )?too long|too many tokens"
    r"|maximum (?:prompt|model) length|(?<!output )\btokens? (?:\S+ ){0,5}exceed(?:s|ed)? "
    r"|inputs` (?:tokens|must have less)|reduce the length of|model token limit"
    r"|prompt exceeds max|input length should be|max size: \d+ tokens",
    re.IGNORECASE,
)
_TOO_MANY_REQUESTS = re.compile(r"rate.?limit|too many requests", re.IGNORECASE)
_STATUS = re.compile("[45][0-9]{2}")
_STATUS_OF_CODE = {  # what routers call an error in a reply of the status 200
    **dict.fromkeys(("invalid_api_key", "authentication_error"), 401),
    "insufficient_quota": 402,
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error"), 429),
    **dict.fromkeys(("context_length_exceeded", "invalid_request_error"), 400),
    **dict.fromkeys(("overloaded_error", "overloaded"), 503),
}
_RESET = re.compile(r"([\d.]+)(ms|s|m|h)")  # the parts of a time such as `6m0s`
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# Why a reply ended, in the words of OpenAI, Anthropic, Gemini, Cohere, TGI and Mistral → in OpenAI's.
_ENDS = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use", "tool_call"), "tool_calls"),
    **dict.fromkeys(
        ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"), "length"
    ),
    **dict.fromkeys(
        ("content_filter", "safety", "refusal", "recitation", "blocklist", "prohibited_content"), "content_filter"
    ),
}


class ChatEngine:
    """`/chat/completions` of one server. Each event loop has a client, and thus connections, of its own."""

    def __init__(
        self, base_url: str, api_key: str | None, max_connections: int, deadline_seconds: float, max_tokens_field: str
    ) -> None:
        self._base_url, self._api_key = base_url, api_key
        self._limits = httpx2.Limits(max_connections=max_connections, max_keepalive_connections=max_connections)
        self._timeout = httpx2.Timeout(deadline_seconds, connect=min(CONNECT_SECONDS, deadline_seconds))
        compat = dataclasses.replace(OpenAIChatCompat.preset("openai"), max_tokens_field=max_tokens_field)
        self._codec = OpenAIChatLM(api_key="unused", compat=compat)  # sends nothing
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = WeakKeyDictionary()

    async def complete(self, request: Request) -> Response:
        """Return the server's reply.

        Raises:
            ProviderError: the server refused the request or failed, or its reply cannot be read.
            TransportError: there was no connection or no whole reply; the cause says which.
        """
        request = dataclasses.replace(request, model=request.model.partition("/")[2])
        body = self._encode(request)
        try:
            options: Any = {} if self._api_key else {"headers": {"Authorization": openai.Omit()}}
            client = self._get_client()
            raw = await client.post("/chat/completions", body=body, cast_to=httpx2.Response, options=options)
            response = _to_lm15(raw)
            if refused := _find_refusal(response):
                raise self._codec._http_error(refused)
            return _read_end(self._codec.parse_response(request, response))
        except openai.APIStatusError as error:
            raise _classify_error(self._codec._http_error(_to_lm15(error.response))) from None
        except openai.APIConnectionError as error:
            kind = ServerTimeoutError if isinstance(error, openai.APITimeoutError) else TransportError
            if isinstance(error.__cause__, _NO_CONNECTION):
                kind = NeverSentError
            raise kind(_describe(error)) from error.__cause__
        except ProviderError as error:
            raise _classify_error(error) from error.__cause__

    def _get_client(self) -> openai.AsyncOpenAI:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._create_client()
        return self._clients[loop]

    def _create_client(self) -> openai.AsyncOpenAI:
        client = openai.AsyncOpenAI(
            api_key=self._api_key or "none",
            base_url=self._base_url,
            max_retries=0,
            # A redirected request would reach a server that nobody has named.
            http_client=openai.DefaultAsyncHttpxClient(
                limits=self._limits,
                timeout=self._timeout,
                follow_redirects=False,
                verify=not self._base_url.lower().startswith("http:"),  # certificates take 40 ms to load
            ),
        )
        if not (urlsplit(self._base_url).hostname or "").endswith("api.openai.com"):
            # The client reads them from variables that are meant for OpenAI.
            client.organization = client.project = None
            client._custom_headers = {}
        return client

    def _encode(self, request: Request) -> dict[str, Any]:
        """Return the body of a request. The codec knows no audio, so it is given a sound as an image."""
        messages = tuple(
            dataclasses.replace(message, parts=tuple(map(_disguise_sound, message.parts)))
            for message in request.messages
        )
        body: dict[str, Any] = self._codec._payload(dataclasses.replace(request, messages=messages), stream=False)
        for message in body["messages"]:
            if isinstance(message.get("content"), list):
                message["content"] = [_reveal_sound(block) for block in message["content"]]
        return body


create_chat_engine = functools.cache(ChatEngine)  # equal arguments give the same engine, with its connections


def _disguise_sound(part: Part) -> Part:
    if isinstance(part, AudioPart) and part.media_type in AUDIO_FORMATS:  # the codec refuses others with a sentence
        return ImagePart(media_type=part.media_type, data=part.data)
    return part


def _reveal_sound(block: dict[str, Any]) -> dict[str, Any]:
    media_type, _, data = block.get("image_url", {}).get("url", "").removeprefix("data:").partition(";base64,")
    if media_type not in AUDIO_FORMATS:
        return block
    return {"type": "input_audio", "input_audio": {"data": data, "format": AUDIO_FORMATS[media_type]}}


def _read_end(response: Response) -> Response:
    """Return the reply with the reason why it ended.

    The codec takes an unknown reason for "stop", and any reason of a reply with a tool call for "tool_call".

    Raises:
        ServerError: it ended for another reason, such as `abort`.
    """
    choices: Any = (response.provider_data or {}).get("choices") or [{}]
    if not (said := choices[0].get("finish_reason")):
        return response
    reason = _ENDS.get(str(said).lower())
    if reason is None:
        raise ServerError(f"the server ended the reply for the reason {said!r}")
    is_whole = reason in ("stop", "tool_calls")
    return response if is_whole else dataclasses.replace(response, finish_reason=reason)


def _to_lm15(response: httpx2.Response) -> HttpResponse:
    headers = list(response.headers.items())
    return HttpResponse(response.status_code, response.reason_phrase, headers, response.content, provider="openai-chat")


def _find_refusal(response: HttpResponse) -> HttpResponse | None:
    """Return the response that a reply of status 200 stands for if it holds an error instead of an answer.

    Raises:
        ServerError: the reply is nested too deeply.
    """
    try:
        body = json.loads(response.body)
    except ValueError:
        return None
    except RecursionError as nested:
        raise ServerError("the server's reply is nested too deeply to be read") from nested
    if not isinstance(body, dict):
        return None
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    error = body.get("error") or (first.get("error") if isinstance(first, dict) else None)
    if not error and "choices" not in body:
        error = next((body for name in ("message", "detail", "msg") if body.get(name)), None)
    if not error:
        return None
    given = error if isinstance(error, dict) else {**body, "message": str(error)}
    message = str(given.get("message") or given.get("detail") or given.get("msg") or error)
    codes = [given[name] for name in ("code", "status", "type") if given.get(name) is not None]
    named = (int(code) if _STATUS.fullmatch(str(code)) else _STATUS_OF_CODE.get(str(code), 0) for code in codes)
    other = 429 if _TOO_MANY_REQUESTS.search(message) else 500
    status = next((status for status in named if status), other)
    shown = {"error": {"message": message, "code": codes[0] if codes else None}}
    return dataclasses.replace(response, status=status, body=json.dumps(shown).encode())


def _describe(error: Exception) -> str:
    """Return the client's message, which is the same for all faults, with the one behind it."""
    return f"{error} ({error.__cause__!r})" if error.__cause__ else str(error)


def _classify_error(error: ProviderError) -> LM15Error:
    """Return a more exact error where there is one.

    A ContextLengthError where vLLM, llama.cpp or Ollama say only in words that the context is too short; a
    TransportError for a reply that lost its end on the way, which is a 200 with half of its JSON or nothing at all.
    """
    if isinstance(error, RateLimitError) and error.retry_after is None:
        error.retry_after = _read_reset(error.rate_limit_headers)
    if isinstance(error, InvalidRequestError | ServerError):
        if isinstance(error, ContextLengthError) or not _OVERFLOW.search(error.message):
            return error
        return ContextLengthError(error.message, status=error.status, provider=error.provider)
    if type(error) is ProviderError and _is_broken_off(error.__cause__):
        return TransportError(f"the reply broke off: {error.message}", status=error.status, provider=error.provider)
    return error


def _read_reset(headers: Mapping[str, Sequence[str]]) -> float | None:
    """Return the seconds until the limits that `x-ratelimit-*` calls used up are reset; None if it calls none so."""
    seconds = 0.0
    for kind in ("requests", "tokens"):
        if "0" in headers.get(f"x-ratelimit-remaining-{kind}", ()):
            parts = _RESET.findall(" ".join(headers.get(f"x-ratelimit-reset-{kind}", ())))
            seconds = max(seconds, sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts))
    return seconds or None


def _is_broken_off(cause: BaseException | None) -> bool:
    """Return whether JSON could not be read because its end, or all of it, is missing; a page of HTML is complete."""
    if isinstance(cause, json.JSONDecodeError):
        return cause.doc.lstrip()[:1] in ("", "{", "[")
    return isinstance(cause, UnicodeDecodeError)  # cut within a character
