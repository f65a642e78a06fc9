"""Requests that fail for a while are sent again within limits, and each failure has its sentence."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from mas.tools.http import client
from mas.tools.http.client import (
    TransientError,
    limit_time,
    read_retry_after,
    retry,
    to_tool_error,
)
from mas.tools.http.settings import WebSettings
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
