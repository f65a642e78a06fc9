"""OpenAI-compatible servers, reached by OpenAI's own client without its retries.

DSPy's `lm15` writes the body of a request and reads that of a reply. Errors are more exact than the client's: a prompt
that is too long, whatever words the server has for it; a refusal inside a reply of status 200; a reply that broke off.
"""

import asyncio
import atexit
import contextlib
import dataclasses
import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
import openai
from dspy import lm15

from mas.llm import name_max_tokens
from mas.llm.engine import NeverSentError
from mas.prompt_sets.dspy_internals import HttpResponse, Part
from mas.runtime.event_loop import background_loop

CONNECT_SECONDS = 10.0
AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_NO_CONNECTION = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_OPENAI = lm15.OpenAIChatCompat.preset("openai")
_CODECS = {  # of bodies, by the name that `max_tokens` has; they send nothing
    field: lm15.OpenAIChatLM(api_key="unused", compat=dataclasses.replace(_OPENAI, max_tokens_field=field))
    for field in ("max_tokens", "max_completion_tokens")
}
# How the servers say that a prompt is too long: OpenAI, vLLM, llama.cpp, Ollama, LM Studio, SGLang, Anthropic, Gemini,
# TGI, Bedrock, xAI, Cohere, Mistral, Groq, Cerebras, Moonshot, DashScope, Zhipu, Databricks, GitHub, Cloudflare.
_OVERFLOW = re.compile(
    r"context[ _](?:length|size|window|limit)|(?:prompt|input|prompt tokens) (?:is )?too long|too many tokens"
    r"|maximum (?:prompt|model) length|(?<!output )\btokens? (?:\S+ ){0,5}exceed(?:s|ed)? "
    r"|inputs` (?:tokens|must have less)|reduce the length of|model token limit"
    r"|prompt exceeds max|input length should be|max size: \d+ tokens",
    re.IGNORECASE,
)
_BUSY = re.compile(r"rate.?limit|too many requests|overloaded", re.IGNORECASE)
_STATUS = re.compile("[45][0-9]{2}")
_RESET = re.compile(r"([\d.]+)(ms|s|m|h)")  # the parts of a time such as `6m0s`
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# Why a reply ended, in the words of OpenAI, Anthropic, Gemini, Cohere, TGI and Mistral.
_WHOLE = re.compile("stop|eos(?:_token)?|end_turn|stop_sequence|complete|tool_calls?|function_call|tool_use")
_ENDS = {
    "length": re.compile("length|max_tokens|max_output_tokens|model_length|model_context_window_exceeded"),
    "content_filter": re.compile("content_filter|safety|refusal|recitation|blocklist|prohibited_content"),
}


class ChatEngine:
    """`/chat/completions` of one server; the connections belong to the loop of the first request."""

    def __init__(self, base_url: str, api_key: str | None) -> None:
        self._base_url, self._api_key = base_url, api_key
        self._url = f"{base_url.rstrip('/')}/chat/completions"  # the client joins parts slowly

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """Return the server's reply; ProviderError: it refused, failed, or cannot be understood.

        TransportError: there was no connection or no whole reply; the cause says which.
        """
        request = dataclasses.replace(request, model=request.model.partition("/")[2])
        body = _encode(request, _CODECS[name_max_tokens(self._base_url, request.model)])
        options: Any = {} if self._api_key else {"headers": {"Authorization": openai.Omit()}}
        try:
            raw = await self._client.post(self._url, body=body, cast_to=httpx2.Response, options=options)
        except openai.APIStatusError as error:
            raise _build_error(error.response, error.response.status_code, error.response.content) from None
        except (openai.APIConnectionError, aiohttp.ClientError) as error:  # some of aiohttp's pass
            cause: BaseException = error
            while cause.__cause__ and not isinstance(cause, aiohttp.ClientError):  # the most exact
                cause = cause.__cause__
            kind = NeverSentError if isinstance(cause, _NO_CONNECTION) else lm15.TransportError
            raise kind(f"{type(cause).__name__}: {cause}") from cause
        return _read_response(raw, request)

    @functools.cached_property
    def _client(self) -> openai.AsyncOpenAI:
        address, proxies = urlsplit(self._base_url), getproxies()
        proxy = proxies.get(address.scheme.lower()) or proxies.get("all", "")
        if proxy.startswith("socks") and not proxy_bypass(address.hostname or ""):
            # aiohttp would send it the request with the key, as to a proxy for HTTP.
            raise lm15.ConfigurationError("a SOCKS proxy is not supported: set HTTPS_PROXY (HTTP) or NO_PROXY")
        client = openai.AsyncOpenAI(
            api_key=self._api_key or "none",
            base_url=self._base_url,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(  # the rate limiter and the call have the limits
                limits=httpx2.Limits(max_connections=0),  # any number
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
                follow_redirects=False,  # to a server that nobody has named
                verify=not self._base_url.lower().startswith("http:"),  # certificates take 40 ms to load
            ),
        )
        if not (urlsplit(self._base_url).hostname or "").endswith("api.openai.com"):
            # The client reads them from variables that are meant for OpenAI.
            client.organization = client.project = None
            client._custom_headers = {}
        atexit.register(_close, client)  # aiohttp prints a complaint about a session that is left open
        return client


def _close(client: openai.AsyncOpenAI) -> None:
    with contextlib.suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(client.close(), background_loop()).result(1)


create_chat_engine = functools.cache(ChatEngine)  # equal arguments share connections


def _encode(request: lm15.Request, codec: lm15.OpenAIChatLM) -> dict[str, Any]:
    """Return the body of a request. The codec knows no audio, so it is given a sound as an image."""
    if not any(isinstance(part, lm15.AudioPart) for message in request.messages for part in message.parts):
        return dict(codec._payload(request, stream=False))
    messages = tuple(
        dataclasses.replace(message, parts=tuple(map(_disguise_sound, message.parts))) for message in request.messages
    )
    body: dict[str, Any] = codec._payload(dataclasses.replace(request, messages=messages), stream=False)
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        for block in blocks:
            kind, _, data = block.get("image_url", {}).get("url", "").removeprefix("data:").partition(";base64,")
            if kind in AUDIO_FORMATS:
                del block["image_url"]
                block |= {"type": "input_audio", "input_audio": {"data": data, "format": AUDIO_FORMATS[kind]}}
    return body


def _disguise_sound(part: Part) -> Part:
    if isinstance(part, lm15.AudioPart) and part.media_type in AUDIO_FORMATS:  # it refuses others
        return lm15.ImagePart(media_type=part.media_type, data=part.data)
    return part


def _read_response(raw: httpx2.Response, request: lm15.Request) -> lm15.Response:
    """Return the reply in a response of status 200, with the reason why it ended.

    The codec takes an unknown reason for "stop", and any reason of a reply with a tool call for "tool_call".
    """
    try:
        body = json.loads(raw.content)
        if not isinstance(body, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:  # a web page, or a part of a reply
        start = raw.content[:200].decode(errors="replace")
        raise lm15.TransportError(f"the reply is no JSON ({error}): {start!r}", status=raw.status_code) from error
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    refusal = body.get("error") or choice.get("error")
    if not refusal and "choices" not in body and any(map(body.get, ("message", "detail", "msg"))):
        refusal = body
    if refusal:
        raise _build_refusal(raw, refusal if isinstance(refusal, dict) else {**body, "message": str(refusal)})
    response = lm15.response_from_openai_chat(body, model=request.model, response_format=request.config.response_format)
    reason = str(choice.get("finish_reason") or "stop").lower()
    if _WHOLE.fullmatch(reason):
        return response
    for finish_reason, words in _ENDS.items():
        if words.fullmatch(reason):
            return dataclasses.replace(response, finish_reason=finish_reason)
    raise lm15.ServerError(f"the server ended the reply for the reason {reason!r}")


def _build_refusal(raw: httpx2.Response, given: Mapping[str, Any]) -> lm15.LM15Error:
    """Return the error in a response of status 200, with the status that its words stand for."""
    message = str(given.get("message") or given.get("detail") or given.get("msg") or dict(given))
    codes = [str(given.get(name)) for name in ("code", "status", "type")]
    other = 429 if _BUSY.search(" ".join([message, *codes])) else 400 if "invalid_request_error" in codes else 500
    status = next((int(code) for code in codes if _STATUS.fullmatch(code)), other)
    return _build_error(raw, status, json.dumps({"error": {**given, "message": message}}).encode())


def _build_error(raw: httpx2.Response, status: int, body: bytes) -> lm15.LM15Error:
    """Return the error of a response; a server may say only in words that the context is too short."""
    response = HttpResponse(status, raw.reason_phrase, list(raw.headers.items()), body, provider="openai-chat")
    error = _CODECS["max_tokens"]._http_error(response)
    if isinstance(error, lm15.RateLimitError) and error.retry_after is None:
        error.retry_after = _read_reset(error.rate_limit_headers)
    if isinstance(error, lm15.InvalidRequestError | lm15.ServerError) and _OVERFLOW.search(error.message):
        return lm15.ContextLengthError(error.message, status=status, provider=error.provider)
    return error


def _read_reset(headers: Mapping[str, Sequence[str]]) -> float | None:
    """Return the seconds until the limits that are used up (`x-ratelimit-*`) are reset."""
    seconds = 0.0
    for kind in ("requests", "tokens"):
        if "0" in headers.get(f"x-ratelimit-remaining-{kind}", ()):
            parts = _RESET.findall(" ".join(headers.get(f"x-ratelimit-reset-{kind}", ())))
            seconds = max(seconds, sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts))
    return seconds or None
