"""What the engines make of errors, options and sounds, without a server."""

import json

import pytest
from dspy.lm15 import (
    AudioPart,
    ContextLengthError,
    InvalidRequestError,
    Message,
    ProviderError,
    Request,
    TextPart,
    TransportError,
)

from mas.llm.dspy_engine import _classify_error, _encode_audio, create_litellm_engines


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
