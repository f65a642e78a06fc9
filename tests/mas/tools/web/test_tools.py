"""What the web tools owe whoever runs them: schemas, marks, light imports, and room for others while they wait."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from mas.tools.http.settings import WebSettings
from mas.tools.read_only import is_read_only
from mas.tools.web.read_page import read_page
from mas.tools.web.web_search import web_search
from mas.tools.web.wikipedia_pages import wikipedia_page, wikipedia_search
from mas.tools.web.youtube_transcript import youtube_transcript
from tests.mas.tools.web.in_context import LOOPBACK, using
from tests.servers.loopback import running
from tests.servers.website import Website

TEXT = {"type": "string"}
TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
PAGE = {"type": "integer", "default": 1}
SCHEMAS: dict[Callable[..., Any], dict[str, Any]] = {
    web_search: {"query": TEXT},
    read_page: {"url": TEXT, "page": PAGE, "search": TEXT_OR_NULL},
    wikipedia_search: {"query": TEXT},
    wikipedia_page: {
        "title": TEXT,
        "section": TEXT_OR_NULL,
        "as_of": TEXT_OR_NULL,
        "page": PAGE,
        "search": TEXT_OR_NULL,
    },
    youtube_transcript: {"url_or_id": TEXT, "language": TEXT_OR_NULL, "page": PAGE, "search": TEXT_OR_NULL},
}


@pytest.mark.parametrize("function", SCHEMAS)
def test_dspy_makes_a_complete_schema_and_the_tool_is_marked_as_read_only(function: Callable[..., Any]) -> None:
    tool = dspy.Tool(function)
    assert tool.args == SCHEMAS[function]
    assert all(f"{argument}:" in tool.desc for argument in tool.args)
    assert is_read_only(tool.func)


def test_a_tool_that_is_cancelled_ends_at_once_and_hangs_on_to_nothing() -> None:
    async def give_up(url: str) -> float:
        task = asyncio.create_task(read_page(url))
        await asyncio.sleep(0.3)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    with running(Website()) as site, using(WebSettings(allow_private_hosts=[LOOPBACK])):
        assert asyncio.run(give_up(f"{site.base_url}/hang")) < 1
