"""Which tools show the web: those that a run's report looks at."""

import asyncio
from pathlib import Path

import pytest
import yaml

from mas.tools.browser.connection import Offer
from mas.tools.browser.session import BrowserSession, check_public
from mas.tools.browser.settings import BrowserSettings
from mas.tools.browser.tools import browser_tools
from mas.tools.catalogue import load_function
from mas.tools.results import is_from_the_web

CONF = Path(__file__).parents[3] / "conf" / "system"
SHOW_THE_WEB = {"web_search", "read_page", "wikipedia_search", "wikipedia_page", "youtube_transcript"}


@pytest.mark.parametrize("system", ["gaia", "single_agent"])
def test_every_tool_that_shows_the_web_says_so_and_no_other(system: str) -> None:
    tools = yaml.safe_load((CONF / f"{system}.yaml").read_text("utf-8"))["tools"]
    assert {name for name, path in tools.items() if is_from_the_web(load_function(path))} == SHOW_THE_WEB
    assert not is_from_the_web(None)


def test_the_browsers_tools_do_too() -> None:
    async def tools() -> dict[str, bool]:
        session = BrowserSession(BrowserSettings(), "http://x", [Offer("browser_find", "finds", {})], check_public)
        return {name: is_from_the_web(tool.func) for name, tool in browser_tools(session).items()}

    assert asyncio.run(tools()) == {"browser_find": True}
