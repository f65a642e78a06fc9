"""Requests that fail for a while are sent again within limits, and each failure has its sentence."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Unpack

import httpx
import pytest

from mas.tools.http import client
from mas.tools.http.client import (
    Reply,
    RequestOptions,
    TransientError,
    limit_time,
    open_client,
    read_retry_after,
    retry,
    send_request,
    to_tool_error,
)
from mas.tools.http.settings import WebSettings
from mas.tools.http.transport import GuardedTransport, Rules
from mas.tools.results import ToolError


def run(
    settings: WebSettings, failures: list[TransientError | ToolError], monkeypatch: pytest.MonkeyPatch
) -> list[float]:
    """Return the waits between the attempts, of which the first ones fail so; the next gives "done"."""
    waits: list[float] = []
    left = list(failures)

    async def record(seconds: float) -> None:
        waits.append(seconds)

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    monkeypatch.setattr(client, "sleep", record)
    assert asyncio.run(retry(attempt, settings, "example.org")) == "done"
    return waits


BUSY = TransientError("busy")


def test_the_wait_doubles_unless_the_server_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(WebSettings(attempts=4), [BUSY] * 3, monkeypatch) == [0.5, 1.0, 2.0]
    named = [TransientError("busy", 7.0), BUSY, TransientError("busy", 0.0)]
    assert run(WebSettings(attempts=4), named, monkeypatch) == [7.0, 1.0, 0.0]


def test_there_are_as_many_attempts_as_the_settings_say_and_none_after_another_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(run(WebSettings(attempts=3), [BUSY] * 2, monkeypatch)) == 2
    with pytest.raises(TransientError, match="busy"):
        run(WebSettings(attempts=3), [BUSY] * 3, monkeypatch)
    with pytest.raises(ToolError, match="gone"):
        run(WebSettings(attempts=3), [ToolError("gone")], monkeypatch)


@pytest.mark.parametrize(("named", "is_tried_again"), [(15.0, True), (15.1, False), (9.0, True)])
def test_a_longer_wait_than_allowed_is_not_waited_for(
    named: float, is_tried_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = WebSettings(attempts=3, max_retry_after_seconds=15.0, seconds=45.0)
    if is_tried_again:
        assert run(settings, [TransientError("busy", named)], monkeypatch) == [named]
        return
    with pytest.raises(TransientError, match="busy"):
        run(settings, [TransientError("busy", named)], monkeypatch)


def test_a_wait_beyond_the_time_of_the_whole_request_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TransientError, match="busy"):
        run(WebSettings(seconds=5.0), [TransientError("busy", 6.0)], monkeypatch)


def test_the_time_is_limited_and_another_timeout_keeps_its_own_name() -> None:
    async def too_long() -> None:
        async with limit_time(0.01, "example.org"):
            await asyncio.sleep(60)

    async def other() -> None:
        async with limit_time(60, "example.org"):
            raise TimeoutError("of the code inside")

    with pytest.raises(ToolError, match=r"example\.org did not answer within 0\.01 seconds"):
        asyncio.run(too_long())
    with pytest.raises(TimeoutError, match="of the code inside"):
        asyncio.run(other())


def test_retry_after_is_a_number_or_a_date() -> None:
    later = read_retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=90))})
    assert later is not None and 80 < later <= 90
    assert read_retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    for text, seconds in (("7", 7.0), (" 12 ", 12.0), ("", None), ("soon", None), ("-3", None), ("\u0662", None)):
        assert read_retry_after({"retry-after": text}) == seconds
    assert read_retry_after({}) is None


def certificate_error() -> Exception:
    error = httpx.ConnectError("failed")
    error.__cause__ = OSError("failed")
    error.__cause__.__context__ = ssl.SSLCertVerificationError("expired")
    return error


@pytest.mark.parametrize(
    ("error", "sentence", "is_transient"),
    [
        (httpx.TooManyRedirects("x"), "redirects in a circle", False),
        (httpx.InvalidURL("x"), "an address that cannot be read", False),
        (httpx.UnsupportedProtocol("x"), "an address that cannot be read", False),
        (httpx.ReadTimeout("x"), "did not answer in time", True),
        (certificate_error(), "no valid certificate", False),
        (httpx.ConnectError("x"), "cannot be reached", True),
        (httpx.ReadError("x"), "broke off", True),
        (httpx.DecodingError("x"), r"could not be read \(DecodingError\)", False),
    ],
)
def test_each_failure_has_its_sentence_and_some_are_tried_again(
    error: Exception, sentence: str, is_transient: bool
) -> None:
    found = to_tool_error(error, "example.org")
    with pytest.raises(ToolError, match=rf"^example\.org .*{sentence}"):
        raise found
    assert isinstance(found, TransientError) is is_transient


@pytest.mark.parametrize(
    ("header", "content_type"), [("Text/HTML; charset=utf-8", "text/html"), (" text/csv ", "text/csv"), (None, "")]
)
def test_the_type_of_a_reply_has_no_parameters(header: str | None, content_type: str) -> None:
    headers = {} if header is None else {"content-type": header}
    assert Reply("https://example.org/", 200, headers, b"").content_type == content_type


def ask(
    answers: list[httpx.Response], settings: WebSettings, **request: Unpack[RequestOptions]
) -> tuple[Reply, list[httpx.Request]]:
    """Return the reply of a server that answers so, one answer for each request, and the requests."""
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answers[len(sent) - 1]

    async def send() -> Reply:
        async with open_client(settings, Rules(1_000), transport=httpx.MockTransport(answer)) as opened:
            return await send_request(opened, "POST", "http://example.org/a", settings, "Example", **request)

    return asyncio.run(send()), sent


@pytest.mark.parametrize("status", [200, 204, 400, 404, 418, 501, 505])
def test_a_reply_whose_status_will_stay_is_returned_as_it_is(status: int) -> None:
    answer = httpx.Response(status, headers={"content-type": "text/x"}, content=b"body")
    reply, sent = ask([answer], WebSettings(), params={"q": "a b", "n": 2}, content=b"sent")
    assert (reply.url, reply.status, reply.content_type, reply.body) == (
        "http://example.org/a?q=a+b&n=2", status, "text/x", b"body"
    )  # fmt: skip
    assert [(each.method, str(each.url), each.content) for each in sent] == [("POST", reply.url, b"sent")]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_in_trouble_is_asked_again_and_then_named(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def record(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(client, "sleep", record)
    busy, named = httpx.Response(status), httpx.Response(status, headers={"retry-after": "3"})
    reply, sent = ask([busy, named, httpx.Response(200)], WebSettings(attempts=3))
    assert (reply.status, len(sent), waits) == (200, 3, [0.5, 3.0])
    with pytest.raises(TransientError) as failed:
        ask([named], WebSettings(attempts=1))
    assert str(failed.value) == (f"Example has trouble of its own ({status}); try again later or use another source.")
    assert failed.value.retry_after_seconds == 3.0


def test_too_many_requests_have_a_sentence_of_their_own() -> None:
    with pytest.raises(TransientError) as failed:
        ask([httpx.Response(429)], WebSettings(attempts=1))
    assert str(failed.value) == (
        "Example refuses for now: too many requests (429); try again later or use another source."
    )
    assert failed.value.retry_after_seconds is None


def test_redirects_are_followed_as_often_as_the_settings_say() -> None:
    onward = [httpx.Response(307, headers={"location": f"http://example.org/{n}"}) for n in range(3)]
    reply, _ = ask([*onward, httpx.Response(200)], WebSettings(max_redirects=3))
    assert reply.url == "http://example.org/2"
    with pytest.raises(ToolError, match="redirects in a circle or too often"):
        ask([*onward, httpx.Response(200)], WebSettings(max_redirects=2))


def test_a_client_has_the_settings_and_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    async def look() -> None:
        settings = WebSettings(seconds=7, contact="me@example.org")
        async with open_client(settings, Rules(1_000)) as opened:
            assert not opened.trust_env and opened.follow_redirects
            assert opened.timeout == httpx.Timeout(7)
            assert isinstance(opened._transport, GuardedTransport)
            assert opened.headers["user-agent"] == "mas-harness/0.1 (me@example.org) httpx"
            assert opened.headers["accept-encoding"] == "gzip, deflate"
        own = {"User-Agent": "other", "Accept": "text/plain"}
        async with open_client(settings, Rules(1_000), headers=own, follow_redirects=False) as opened:
            assert not opened.follow_redirects
            assert (opened.headers["user-agent"], opened.headers["accept"]) == ("other", "text/plain")
            assert opened.headers["accept-encoding"] == "gzip, deflate"

    asyncio.run(look())


def test_of_a_very_long_number_of_seconds_the_first_digits_count() -> None:
    assert read_retry_after({"retry-after": "1234567890123"}) == 123_456_789.0
