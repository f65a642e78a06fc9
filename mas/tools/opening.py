"""What tools need for as long as a run lasts, opened once before the program is built.

with open_tools(ToolSettings(), {"read_file", "browser"}, print) as resources:
    resources["browser"]        # a session; not there if no server answers, which has been said
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from mas.tools.settings import ToolSettings

BROWSER = "browser"  # the name that stands for all tools of the browser in an agent's list


@contextmanager
def open_tools(
    settings: ToolSettings, names: Collection[str], say: Callable[[str], None]
) -> Iterator[Mapping[str, Any]]:
    """
    Args:
        settings: of the run.
        names: of the tools that any agent may call.
        say: told once of each service that is missing; the run goes on without it.
    """
    with ExitStack() as stack:
        opened: dict[str, Any] = {}
        if "web_search" in names:
            from mas.tools.web_search import missing

            if sentence := missing(settings.web):
                say(sentence)
        if BROWSER in names and settings.browser.url is not None:
            from mas.tools.browser.session import open_browser
            from mas.tools.web.guard import check_public

            browser = open_browser(settings.browser, say, lambda url: check_public(url, settings.web))
            if (session := stack.enter_context(browser)) is not None:
                opened[BROWSER] = session
        yield opened
