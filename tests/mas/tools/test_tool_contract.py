"""Contract of every tool of the catalogue: a schema for models, a typed result, and no heavy import before a call.

A tool is checked as soon as it is in the catalogue; a call in CALLS checks the facts of its result, too.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.untrusted import is_untrusted
from mas.tools.attachments import use_attachments
from mas.tools.catalogue import TOOLS, load_function
from mas.tools.results import ResultKind, ToolResult
from mas.tools.settings import BUBBLEWRAP, Resources, SandboxSettings, ToolSettings, WebSettings, use_tool_context
from tests.mas.tools.web.in_context import LOOPBACK
from tests.needs import skip_without
from tests.servers.loopback import running
from tests.servers.mediawiki import MediaWikiServer
from tests.servers.tavily import KEY, TavilyServer
from tests.servers.website import Website
from tests.servers.youtube import YouTubeServer

CALLS: dict[str, tuple[dict[str, str], ResultKind, str]] = {  # arguments, kind of the result, text of its first source
    "calculator": ({"expression": "6*7"}, "computed", ""),
    "unit_converter": ({"quantity": "1 km", "to_unit": "m"}, "computed", ""),
    "python_repl_tool": ({"code": "print(6 * 7)"}, "code", ""),
    "read_file": ({"file": "towns.csv"}, "file", "Rome"),
    "tavily_tool": ({"query": "lighthouse Marrow Point"}, "web_search", "lamp"),
    "wikipedia_tool": ({"query": "varga"}, "web_search", "Varga"),
    "wikipedia_page": ({"title": "Ada Varga"}, "web_page", "Varga"),
    "youtube_transcript_tool": ({"url": "birds000001"}, "web_page", "Welcome to the birds of Marrow."),
    "read_page": ({"url": "/article"}, "web_page", "Keepers"),
}


@pytest.fixture(scope="module")
def site() -> Iterator[Website]:
    with running(Website()) as server:
        yield server


@pytest.fixture(scope="module")
def resources(site: Website) -> Iterator[Resources]:
    with ExitStack() as stack:
        web = WebSettings(
            allow_private_hosts=[LOOPBACK],
            contact="tests@example.org",
            search_base_url=stack.enter_context(running(TavilyServer())).base_url,
            wikipedia_url=stack.enter_context(running(MediaWikiServer())).api_url,
            youtube_url=stack.enter_context(running(YouTubeServer())).base_url,
        )
        yield Resources(ToolSettings(web=web, sandbox=SandboxSettings(kind=BUBBLEWRAP)))


@pytest.mark.parametrize("name", CALLS)
def test_a_result_has_a_kind_and_its_sources(
    name: str, resources: Resources, site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    (tmp_path / "towns.csv").write_text("town\nRome\n")
    arguments, kind, shown = CALLS[name]
    if name == "python_repl_tool":
        skip_without("bubblewrap")
    if name == "read_page":
        arguments = {"url": site.base_url + arguments["url"]}
    function = load_function(TOOLS[name])
    with use_tool_context(resources), use_attachments([tmp_path / "towns.csv"]):
        result = call(function, arguments)
    assert (type(result), result.kind, result.failed, result.truncated) == (ToolResult, kind, False, False)
    assert is_untrusted(function) == result.is_untrusted, "failures are labelled as results are"
    assert bool(result.excerpts) == bool(shown)
    for first in result.excerpts[:1]:
        assert shown in result[first.start : first.end] and first.source
    assert ToolResult.restore(str(result), result.describe()).describe() == result.describe()


def call(function: Callable[..., Any], arguments: dict[str, str]) -> ToolResult:
    async def run() -> ToolResult:
        returned: ToolResult | Awaitable[ToolResult] = function(**arguments)
        return await returned if inspect.isawaitable(returned) else returned

    return asyncio.run(run())
