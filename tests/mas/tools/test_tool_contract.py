"""Contract of every tool in conf/: a schema that a model can follow, a typed result, and no heavy import before a call.

A tool is checked as soon as it is in conf/system/; a call in CALLS checks the facts of its result, too.
"""

import asyncio
import inspect
import subprocess
import sys
import typing
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dspy
import pytest
import yaml

from mas.runtime.untrusted import is_untrusted
from mas.tools.attachments import use_attachments
from mas.tools.browser.page import build_result
from mas.tools.browser.session import BrowserSession, check_public
from mas.tools.browser.settings import BrowserSettings
from mas.tools.browser.tools import build_browser_tools
from mas.tools.catalogue import load_function
from mas.tools.http.settings import WebSettings
from mas.tools.mcp.connection import Offer
from mas.tools.results import WEB_KINDS, ResultKind, ToolResult
from mas.tools.sandbox.settings import UNSAFE_LOCAL, SandboxSettings
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources, use_tool_context
from tests.mas.tools.web.in_context import LOOPBACK
from tests.servers.loopback import running
from tests.servers.mediawiki import MediaWikiServer
from tests.servers.tavily import KEY, TavilyServer
from tests.servers.website import Website
from tests.servers.youtube import YouTubeServer

CONF = Path(__file__).parents[3] / "conf" / "system"
TOOLS: dict[str, str] = {
    name: path
    for system in ("gaia", "single_agent")
    for name, path in yaml.safe_load((CONF / f"{system}.yaml").read_text("utf-8"))["tools"].items()
}
TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
TEXT_OR_NUMBER = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "default": None}
SCHEMAS = {
    "calculator": {"expression": {"type": "string"}},
    "unit_converter": {"quantity": {"type": "string"}, "to_unit": {"type": "string"}},
    "read_file": {
        "file": {"type": "string"},
        "sheet": TEXT_OR_NUMBER,
        "page": {"type": "integer", "default": 1},
        "search": TEXT_OR_NULL,
        "member": TEXT_OR_NULL,
        "lines": TEXT_OR_NUMBER,
    },
}
CALLS: dict[str, tuple[dict[str, str], ResultKind, str]] = {  # arguments, kind of the result, text of its first source
    "calculator": ({"expression": "6*7"}, "computed", ""),
    "unit_converter": ({"quantity": "1 km", "to_unit": "m"}, "computed", ""),
    "python": ({"code": "print(6 * 7)"}, "code", ""),
    "read_file": ({"file": "towns.csv"}, "file", "Rome"),
    "web_search": ({"query": "lighthouse Marrow Point"}, "web_search", "lamp"),
    "wikipedia_search": ({"query": "varga"}, "web_search", "Varga"),
    "wikipedia_page": ({"title": "Ada Varga"}, "web_page", "Varga"),
    "youtube_transcript": ({"url_or_id": "birds000001"}, "web_page", "Welcome to the birds of Marrow."),
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
        yield Resources(ToolSettings(web=web, sandbox=SandboxSettings(kind=UNSAFE_LOCAL)))


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_has_its_name_typed_arguments_that_it_explains_and_a_typed_result(name: str) -> None:
    function = load_function(TOOLS[name])
    tool = dspy.Tool(function)
    assert function.__name__ == tool.name == name, "the key in conf/ is the name that its result is labelled with"
    assert typing.get_type_hints(function)["return"] is ToolResult
    assert function.__doc__ == tool.desc and tool.desc, "the docstring is what the model reads"
    assert tool.args and all(schema.get("type") or schema.get("anyOf") for schema in tool.args.values())
    assert all(f"{argument}:" in tool.desc or len(tool.args) == 1 for argument in tool.args)
    assert SCHEMAS.get(name, tool.args) == tool.args


@pytest.mark.parametrize("name", CALLS)
def test_a_result_has_a_kind_and_its_sources(
    name: str, resources: Resources, site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    (tmp_path / "towns.csv").write_text("town\nRome\n")
    arguments, kind, shown = CALLS[name]
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


def test_the_browsers_tools_return_data_from_the_web() -> None:
    async def tools() -> dict[str, dspy.Tool]:
        session = BrowserSession(BrowserSettings(), "http://x", [Offer("browser_find", "finds", {})], check_public)
        return build_browser_tools(session)

    assert all(is_untrusted(tool.func) for tool in asyncio.run(tools()).values())
    shown = build_result(
        "", "### Page\n- Page URL: https://example.org/\n- Page Title: Towns\n### Snapshot\n- text: Rome"
    )
    (excerpt,) = shown.excerpts
    assert shown.kind in WEB_KINDS
    assert (excerpt.source, excerpt.title, shown[excerpt.start : excerpt.end]) == (
        "https://example.org/", "Towns", "- text: Rome"
    )  # fmt: skip


def test_importing_the_tools_imports_no_heavy_library() -> None:
    program = (
        "import sys\n"
        "import mas.tools.calculator, mas.tools.read_file, mas.tools.unit_converter\n"
        "heavy = {'openpyxl', 'pint', 'simpleeval', 'pandas', 'numpy', 'dspy', 'unstructured'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
