"""When a request that failed for a while is sent again: the server's Retry-After, within the time of the request."""

import asyncio

import httpx
import pytest

from mas.tools.http.client import TransientError, build_busy_error, retry
from mas.tools.settings import WebSettings


def test_retry_after_is_a_number_of_seconds() -> None:
    for text, seconds in (("7", 7.0), (" 12 ", 12.0), ("", None), ("soon", None), ("-3", None)):
        reply = httpx.Response(503, headers={"retry-after": text})
        assert build_busy_error(reply, "example.org").retry_after_seconds == seconds


@pytest.mark.parametrize(("seconds", "wait"), [(60.0, 16.0), (5.9, 6.0)])
def test_a_longer_wait_than_allowed_or_left_is_not_waited_for(seconds: float, wait: float) -> None:
    asked: list[str] = []

    async def attempt() -> None:
        asked.append("once")
        raise TransientError("busy", wait)

    with pytest.raises(TransientError, match="busy"):
        asyncio.run(retry(attempt, WebSettings(seconds=seconds), "example.org"))
    assert asked == ["once"]
