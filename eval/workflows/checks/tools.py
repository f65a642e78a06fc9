"""The doctor's checks of the services that the chosen system's tools call: web search, Wikipedia, browser.

A run goes on without any of them, so nothing here is `missing`. Only `deep` sends requests beyond this machine: one
search of the web, which costs what a search costs, and one of Wikipedia.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from urllib.parse import urlsplit

from eval.config.evaluation import EvalConfig
from eval.workflows.checks.installation import OK, WARNING, Finding
from mas.runtime.errors import UserError
from mas.tools.browser.session import describe_missing_browser
from mas.tools.catalogue import BROWSER, describe_missing_contact
from mas.tools.results import ToolError
from mas.tools.settings import SEARCH_KEY_ENV, BrowserSettings, WebSettings, describe_missing_search
from mas.tools.transcription import describe_missing_key
from mas.tools.web.web_search import search_tavily

QUERY = "Wikipedia"
TIMEOUT_SECONDS = 10.0
ASK_WIKIPEDIA = {"wikipedia_tool", "wikipedia_page"}


def check_tools(config: EvalConfig, deep: bool) -> Iterator[Finding]:
    """Check what the tools of the system's agents need; `deep`: search once."""
    try:
        config.tools.check()
    except UserError:  # the check of the system reports it
        return
    agents = getattr(config.system, "agents", {}).values()
    names = {name for agent in agents for name in getattr(agent, "tools", ())}
    web = replace(config.tools.web, seconds=min(config.tools.web.seconds, TIMEOUT_SECONDS))
    if "tavily_tool" in names:
        yield _check_search(web, deep, config.redact)
    if deep and names & ASK_WIKIPEDIA:
        yield _check_wikipedia(web)
    elif sentence := describe_missing_contact(web, names):
        yield Finding("wikipedia", WARNING, sentence)
    if BROWSER in names:
        yield _check_browser(config.tools.browser)
    if "read_file" in names and (sentence := describe_missing_key(config.tools.transcription)):
        yield Finding("sounds", WARNING, sentence, f"put {config.tools.transcription.api_key_env}=… into .env")


def _check_search(settings: WebSettings, deep: bool, redact: Callable[[str], str]) -> Finding:
    variable = SEARCH_KEY_ENV
    if sentence := describe_missing_search(settings):
        return Finding("search", WARNING, sentence, f"put {variable}=… into .env")
    if not deep:
        return Finding("search", OK, f"{variable} is set; --deep tries it")
    place = hide_credentials(settings.search_base_url)
    if why_not := _find_failure(search_tavily(QUERY, settings)):
        remedy = "check the key and its plan" if variable in why_not else "be online, or try again later"
        return Finding("search", WARNING, f"{place}: {redact(why_not)}", remedy)
    return Finding("search", OK, f"{place} answers, and takes the key in {variable}")


def _check_wikipedia(settings: WebSettings) -> Finding:
    from mas.tools.web import mediawiki as wiki_search

    if why_not := _find_failure(wiki_search.search_wikipedia(QUERY, settings, results=1)):
        remedy = "be online" if settings.contact else "be online; give tools.web.contact, which Wikipedia asks for"
        return Finding("wikipedia", WARNING, f"{hide_credentials(settings.wikipedia_api)}: {why_not}", remedy)
    return Finding("wikipedia", OK, f"{hide_credentials(settings.wikipedia_api)} answers")


def _check_browser(settings: BrowserSettings) -> Finding:
    if settings.url is None:
        return Finding("browser", OK, "off (tools.browser.url=null)")
    if sentence := describe_missing_browser(settings):
        return Finding("browser", WARNING, sentence)
    return Finding("browser", OK, f"{settings.url} is an MCP server")


def _find_failure(request: Coroutine[object, object, object]) -> str:
    """Return what went wrong, without the advice for an agent; "" if nothing did."""
    from mas.runtime.event_loop import run_blocking

    try:
        run_blocking(request)
    except ToolError as error:
        return (str(error).rpartition("; ")[0] or str(error)).rstrip(".")
    return ""


def hide_credentials(address: str) -> str:
    """Return the address without a user name and a password."""
    url = urlsplit(address)
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
