"""The browser's tools as agents get them: those of the server that only look at pages and use them.

browser_tools(session)["browser_click"]      # a dspy.Tool with the server's description and arguments
"""

from collections.abc import Awaitable, Callable
from typing import Any

from mas.runtime.untrusted import mark_untrusted
from mas.tools.browser.connection import Offer
from mas.tools.browser.session import BrowserSession
from mas.tools.results import ToolResult

# A list of what is allowed, so that a new version of the server brings nothing in unseen. Left out on purpose: what
# runs code (browser_evaluate, browser_run_code_unsafe), what reads or writes the server's files (browser_file_upload,
# browser_drop, browser_pdf_save), what installs (browser_install), tools that a page itself offers (WebMCP), pictures,
# which an agent gets as text alone (browser_take_screenshot), and what no question needs and every prompt would carry
# (browser_close, _resize, _drag, _emulate_media, _console_messages, _network_requests).
ALLOWED = (
    "browser_navigate",
    "browser_navigate_back",
    "browser_snapshot",
    "browser_find",
    "browser_click",
    "browser_hover",
    "browser_type",
    "browser_press_key",
    "browser_select_option",
    "browser_fill_form",
    "browser_handle_dialog",
    "browser_tabs",
    "browser_wait_for",
)
HIDDEN = ("filename", "element", "boxes")  # arguments: writes a file of the server; asks for a permission; is of no use
MAX_DESCRIPTION_CHARS = 1_000


def build_browser_tools(session: BrowserSession) -> dict[str, Any]:
    """By name, a `dspy.Tool` for each allowed tool that the server has; async: to be awaited with `acall`."""
    offered = {offer.name: offer for offer in session.offers}
    return {name: _tool(offered[name], session) for name in ALLOWED if name in offered}


def _tool(offer: Offer, session: BrowserSession) -> Any:
    import dspy

    args = read_arguments(offer.schema)
    description = offer.description[:MAX_DESCRIPTION_CHARS]
    return dspy.Tool(_function(offer.name, args, session), offer.name, description, args, dict.fromkeys(args, Any))


def _function(name: str, args: dict[str, Any], session: BrowserSession) -> Callable[..., Awaitable[ToolResult]]:
    """A function and no method: copies of a program share the session."""

    async def act(**arguments: Any) -> ToolResult:
        # A null is how a model leaves out an argument that it thinks it has to name.
        given = {key: value for key, value in arguments.items() if key in args and value is not None}
        return await session.act(name, given)

    act.__name__ = name
    return mark_untrusted(act)


def read_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments as DSPy keeps them: each with its JSON schema. One that may be left out has the default null, or
    DSPy would say that it is required.
    """
    required = schema.get("required", ())
    found = {}
    for name, about in schema.get("properties", {}).items():
        if name in HIDDEN:
            continue
        found[name] = about if name in required or "default" in about else _optional(about)
    return found


def _optional(about: dict[str, Any]) -> dict[str, Any]:
    kind = {key: value for key, value in about.items() if key != "description"}
    described = {"description": about["description"]} if "description" in about else {}
    return {"anyOf": [kind, {"type": "null"}], "default": None, **described}
