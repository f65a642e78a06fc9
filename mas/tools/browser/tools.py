"""Tools of the browser's server that agents may call: those that look at pages and use them.

build_browser_tools(session)["browser_click"]      # a dspy.Tool with the server's description and arguments
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dspy
    from mcp.types import Tool

from mas.runtime.errors import UserError
from mas.runtime.untrusted import mark_untrusted
from mas.tools.browser.session import BrowserSession
from mas.tools.results import ToolResult

# All of the server's tools but some (docs/explanation/decisions.md 19), as an allow list: a new version of the server
# adds nothing unseen. Left out: tools that write or read files of its machine (browser_pdf_save,
# browser_take_screenshot, browser_file_upload, browser_drop), that run code (browser_run_code_unsafe, browser_evaluate:
# its requests would pass the rules for addresses), install (browser_install), or that a page itself offers (WebMCP).
ALLOWED = (
    *("browser_navigate", "browser_navigate_back", "browser_snapshot", "browser_find", "browser_click"),
    *("browser_hover", "browser_type", "browser_press_key", "browser_select_option", "browser_fill_form"),
    *("browser_handle_dialog", "browser_tabs", "browser_wait_for", "browser_drag", "browser_resize"),
    *("browser_emulate_media", "browser_console_messages", "browser_network_requests", "browser_network_request"),
    "browser_close",
)
HIDDEN = ("filename",)  # arguments that write a file of the server
MAX_DESCRIPTION_CHARS = 1_000


def build_browser_tools(session: BrowserSession) -> "dict[str, dspy.Tool]":
    """Return an async tool by name for each allowed tool that the server offers.

    Raises:
        UserError: a tool that the user has chosen is not offered.
    """
    offered, chosen = {offer.name: offer for offer in session.offers}, session.chosen_tools
    if missing := [name for name in chosen or () if name not in offered]:
        raise UserError(
            f"tools.browser.tools: the browser's server has no {missing[0]}; choose from {', '.join(sorted(offered))}."
        )
    return {name: _build_tool(offered[name], session) for name in chosen or ALLOWED if name in offered}


def _build_tool(offer: "Tool", session: BrowserSession) -> "dspy.Tool":
    import dspy

    name, args = offer.name, _read_arguments(offer.input_schema)

    async def act(**arguments: object) -> ToolResult:  # not a method: copies of a program share the session
        # Models write null for an argument that they want to leave out.
        given = {key: value for key, value in arguments.items() if key in args and value is not None}
        return await session.act(name, given)

    act.__name__ = name
    description = (offer.description or "")[:MAX_DESCRIPTION_CHARS]
    return dspy.Tool(mark_untrusted(act), name, description, args, dict.fromkeys(args, Any))


def _read_arguments(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the arguments in DSPy's form, each with its JSON schema.

    An optional argument has the default null: otherwise DSPy would call it required.
    """
    required, found = schema.get("required", ()), {}
    for name, about in schema.get("properties", {}).items():
        if name in HIDDEN:
            continue
        found[name] = about
        if name not in required and "default" not in about:
            kind = {key: value for key, value in about.items() if key != "description"}
            described = {"description": about["description"]} if "description" in about else {}
            found[name] = {"anyOf": [kind, {"type": "null"}], "default": None, **described}
    return found
