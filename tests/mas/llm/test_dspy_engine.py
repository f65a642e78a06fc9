"""What the engines make of errors, options and sounds, without a server."""

import asyncio
import json
import os
from types import SimpleNamespace
from typing import Any

import pytest
from dspy.clients.engines.lm15_engine import LM15Engine
from dspy.lm15 import (
    AudioPart,
    Config,
    ContextLengthError,
    InvalidRequestError,
    Message,
    ProviderError,
    Request,
    TextPart,
    TransportError,
)

from mas.llm.dspy_engine import (
    AsyncChatEngine,
    ChatEngine,
    _classify_error,
    _encode_audio,
    create_chat_engines,
    create_litellm_engines,
)


def caused(error: ProviderError, cause: BaseException | None) -> ProviderError:
    error.__cause__ = cause
    return error


def unreadable(text: str) -> json.JSONDecodeError:
    return json.JSONDecodeError("Expecting value", text, 0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (caused(ProviderError("no JSON"), unreadable('{"a": ')), TransportError),
        (caused(ProviderError("no JSON"), unreadable(" [1,")), TransportError),
        (caused(ProviderError("no JSON"), unreadable("  ")), TransportError),
        (caused(ProviderError("no JSON"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "cut")), TransportError),
        (caused(ProviderError("a page"), unreadable("<html>")), ProviderError),
        (ProviderError("down"), ProviderError),
        (InvalidRequestError("temperature must be 1"), InvalidRequestError),
        (InvalidRequestError("the request exceeds the available context size"), ContextLengthError),
        (ContextLengthError("too long"), ContextLengthError),
        (caused(InvalidRequestError("no"), unreadable("{")), InvalidRequestError),
    ],
)
def test_a_reply_that_broke_off_and_a_full_context_have_their_own_errors(
    error: ProviderError, kind: type[Exception]
) -> None:
    found = _classify_error(error)
    assert type(found) is kind
    assert (found is error) is (type(error) is kind), "an error that is exact enough stays itself"
    assert error.message in found.message


def test_litellm_gets_key_and_address_only_where_they_are_set() -> None:
    options = [
        set(engine.client_options)  # type: ignore[attr-defined]
        for arguments in ((None, None), ("k", None), (None, "http://x"), ("k", "http://x"))
        for engine in create_litellm_engines(*arguments, 5.0)
    ]
    wanted = ({"timeout"}, {"timeout", "api_key"}, {"timeout", "api_base"}, {"timeout", "api_key", "api_base"})
    assert options == [each for each in wanted for _ in range(2)]
    assert create_litellm_engines("k", None, 5.0) is create_litellm_engines("k", None, 5.0)


def test_a_request_without_sound_stays_as_it_is_and_a_sound_is_put_in_its_place() -> None:
    plain = Request("any", (Message("user", (TextPart("hello"),)),))
    assert _encode_audio(plain) is plain
    sound = AudioPart(media_type="audio/wav", data="UklGRg==")
    (message,) = _encode_audio(
        Request("any", (Message("user", (TextPart("Listen:"), sound, TextPart("What is said?"))),))
    ).config.extensions["messages"]  # type: ignore[index]
    assert [block["type"] for block in message["content"]] == ["text", "input_audio", "text"]
    assert message["content"][1]["input_audio"] == {"data": "UklGRg==", "format": "wav"}


def test_a_more_exact_error_keeps_status_and_provider_and_says_what_happened() -> None:
    full = _classify_error(InvalidRequestError("Context_Window exceeded", status=400, provider="p"))
    assert (full.message.splitlines()[0], full.status, full.provider) == ("Context_Window exceeded", 400, "p")
    half = _classify_error(caused(ProviderError("no JSON", status=200, provider="p"), unreadable("{")))
    assert half.message.splitlines()[0].startswith("the reply broke off: no JSON")
    assert (half.status, half.provider) == (200, "p")


def chat_engines(
    url: str = "http://127.0.0.1:9/v1", seconds: float = 9.0, field: str = "max_tokens"
) -> tuple[Any, Any]:
    return create_chat_engines(url, "key-of-ours", 4, seconds, field)


def test_an_endpoint_has_one_engine_of_each_kind_with_its_settings() -> None:
    engines = chat_engines()
    assert list(map(type, engines)) == [ChatEngine, AsyncChatEngine]
    assert chat_engines() == engines and chat_engines(seconds=8.0) != engines
    for engine in engines:
        (provider,) = engine.config.providers
        assert (provider.access.provider, provider.access.base_url) == ("model-server", "http://127.0.0.1:9/v1")
        assert provider.compat.max_tokens_field == "max_tokens"
        assert dict(engine.config.api_keys) == {"model-server": "key-of-ours"}
        assert engine.config.max_connections == 4
        assert engine.config.timeouts != chat_engines(seconds=8.0)[0].config.timeouts
        resolved = engine.resolve("openai/org/model")
        assert (resolved.provider, resolved.model) == ("model-server", "org/model")
    assert chat_engines(field="max_completion_tokens")[0].config.providers[0].compat.max_tokens_field == (
        "max_completion_tokens"
    )


ASKED = Request("openai/any", (Message("user", (TextPart("hello"),)),))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_either_engine_gives_the_reply_or_a_more_exact_error_with_its_cause(
    asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply, cause = object(), unreadable("{")
    outcomes: list[object] = [reply, caused(ProviderError("no JSON"), cause)]
    asked: list[Request] = []

    def give(request: Request) -> object:
        asked.append(request)
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def give_later(request: Request) -> object:
        return give(request)

    engines = chat_engines()
    if asynchronous:
        provider = SimpleNamespace(complete=give_later)
        monkeypatch.setattr(AsyncChatEngine, "_target", lambda self, request: (provider, request))
    else:
        monkeypatch.setattr(LM15Engine, "complete", lambda self, request: give(request))

    def complete() -> object:
        return asyncio.run(engines[1].complete(ASKED)) if asynchronous else engines[0].complete(ASKED)

    assert complete() is reply
    with pytest.raises(TransportError) as raised:
        complete()
    assert raised.value.__cause__ is cause
    assert asked == [ASKED, ASKED]


def test_every_sound_goes_to_its_place_and_all_else_stays() -> None:
    wav, mp3 = AudioPart(media_type="audio/wav", data="UklGRg=="), AudioPart(media_type="audio/mpeg", data="aGk=")
    messages = (
        Message("user", (TextPart("only text"),)),
        Message("user", (mp3,)),
        Message("user", (TextPart("a"), wav, mp3)),
    )
    request = Request("any", messages, "Be brief.", config=Config(temperature=0.5, extensions={"seed": 1}))
    encoded = _encode_audio(request)
    first = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    second = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}
    assert encoded.config.extensions == {
        "seed": 1,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "only text"},
            {"role": "user", "content": [second]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, first, second]},
        ],
    }
    assert (encoded.model, encoded.system, encoded.config.temperature) == ("any", "Be brief.", 0.5)
    parts = [part for message in encoded.messages for part in message.parts]
    assert [type(part) for part in parts] == [TextPart] * 5, "what the engine itself encodes is without sounds"


@pytest.mark.parametrize(("before", "after"), [(None, "True"), ("False", "False")])
def test_litellm_fetches_no_list_of_prices_unless_the_user_wants_it(
    before: str | None, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", before or "")
    if before is None:
        monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP")
    create_litellm_engines.__wrapped__(None, None, 5.0)
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == after


def test_a_request_is_routed_with_its_sounds_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    provider, seen = object(), list[bool]()

    def route(engine: object, request: Request, *, streaming: bool) -> tuple[object, Request]:
        seen.append(streaming)
        return provider, request

    monkeypatch.setattr(LM15Engine, "_target", route)
    engine = chat_engines()[0]
    assert engine._target(ASKED) == (provider, ASKED)
    sound = Message("user", (AudioPart(media_type="audio/wav", data="UklGRg=="),))
    _, routed = engine._target(Request("any", (sound,)), streaming=True)
    assert routed.config.extensions["messages"][0]["content"][0]["type"] == "input_audio"
    assert seen == [False, True]
