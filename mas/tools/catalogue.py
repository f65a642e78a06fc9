"""Loading of the tools that `conf/system/` names, and of the services that they need."""

import importlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.text import name_type
from mas.tools.settings import REFUSE, SEARCH_KEY_ENV, Resources, ToolSettings


def load_function(dotted: str) -> Callable[..., Any]:
    """Return the function of the name `package.module.function`; UserError: it cannot be loaded."""
    module_name, _, name = dotted.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"{dotted} cannot be loaded ({error}); expected package.module.function of something importable."
        ) from error
    if not callable(found):
        raise UserError(f"{dotted} is {name_type(found)}; expected a function.")
    return found  # type: ignore[no-any-return]


TOOLS = {  # name that agents see → function; a system's own are in its `tools`
    "read_file": "mas.tools.read_file.read_file",
    "tavily_tool": "mas.tools.web.web_search.tavily_tool",
    "read_page": "mas.tools.web.read_page.read_page",
    "wikipedia_tool": "mas.tools.web.wikipedia_pages.wikipedia_tool",
    "wikipedia_page": "mas.tools.web.wikipedia_pages.wikipedia_page",
    "youtube_transcript_tool": "mas.tools.web.youtube.youtube_transcript_tool",
    "calculator": "mas.tools.calculator.calculator",
    "unit_converter": "mas.tools.unit_converter.unit_converter",
    "python_repl_tool": "mas.tools.sandbox.repl.python_repl_tool",
}
BROWSER = "browser"  # stands for all tools of the browser in an agent's list


@contextmanager
def open_tools(settings: ToolSettings, names: Collection[str], say: Callable[[str], None]) -> Iterator[Resources]:
    """Open what these tools need for a run; `say` is called for each service that is missing."""
    for sentence in describe_missing_services(settings, names):
        say(sentence)
    opened: dict[str, object] = {}
    browser = None
    if BROWSER in names and settings.browser.url is not None:
        from mas.tools.browser.session import open_browser
        from mas.tools.http.url_policy import check_public

        async def check(url: str) -> str:
            return (await check_public(url, settings.web))[0]

        if (browser := open_browser(settings.browser.url, check, say)) is not None:
            opened[BROWSER] = browser
    try:
        yield Resources(settings, opened, list_broken_tools(settings, names))
    finally:
        if browser is not None:
            run_blocking(browser.aclose())


def list_broken_tools(settings: ToolSettings, names: Collection[str]) -> tuple[str, ...]:
    """Return a sentence for each tool that cannot work on this machine, whatever the model."""
    if "python_repl_tool" not in names or settings.sandbox.kind == REFUSE:  # as the user asked for
        return ()
    from mas.tools.sandbox.repl import try_isolations

    isolation, refused = try_isolations(settings.sandbox.kind)
    return () if isolation else (f"the tool python_repl_tool will refuse every call: {' '.join(refused)}",)


def describe_missing_services(settings: ToolSettings, names: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each service that one of these tools lacks."""
    web, sounds = settings.web, settings.transcription
    if "tavily_tool" in names and not web.search_api_key:
        yield f"{SEARCH_KEY_ENV} is not set: there is no web search; wikipedia_tool searches Wikipedia."
    if not web.contact and {"wikipedia_tool", "wikipedia_page"}.intersection(names):
        yield (
            "tools.web.contact is empty: Wikipedia asks for a mail address or page in the user agent and may refuse; "
            "give it with tools.web.contact=me@example.org."
        )
    if "read_file" in names and sounds.model is not None and not sounds.is_on:
        needed = f"tools.transcription.model={sounds.model} needs a key in {sounds.api_key_env}"
        yield f"sounds are not transcribed: {needed}."
