r"""Parser of Playwright MCP's replies, and the text that an agent sees of them.

    split_sections("### Page\n- Page URL: https://example.org/\n### Snapshot\n…")["Page"]      # "- Page URL: https://…"
    read_open_page(reply_to_browser_snapshot)          # ("https://example.org/", "Towns")

A page can write any text into its snapshot, but no line that begins with "### ": its title is one line, and the
snapshot is a tree. The one exception is the text of a dialog, which follows the section of the page.
"""

import re
from datetime import UTC, datetime

from mas.runtime.text import replace_surrogates
from mas.tools.results import Excerpt, ToolResult

_HEADING = re.compile(r"^### (?=[A-Z])", re.MULTILINE)
_ADDRESS = re.compile(r"^- Page URL: (.*)$", re.MULTILINE)
_TITLE = re.compile(r"^- Page Title: (.*)$", re.MULTILINE)
_FENCE = re.compile(r"^```\w*\n|\n?```\s*$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CALL_LOG = re.compile(r"\nCall log:.*", re.DOTALL)
_CONTROLS = re.compile(
    r"^(?P<indent> *)- '?(?:textbox|searchbox|combobox|spinbutton)\b.*(?:\n(?P=indent) +- (?:/\w+|text):.*)*"
    r"|^ *- (?:\d+: .*|/url:.*|'?[a-z]+\b)|\[(?:ref|cursor|level|active)\b[^\]]*\]"
    r"|^(?:Found \d+ match(?:es)?|No matches found) for .*",
    re.MULTILINE,
)
_DIALOG = "### Modal state\n"
BLANK = "about:blank"
_NO_PAGE_OPEN = "(No page is open; browser_navigate opens one.)"
_NO_TEXT = "(The page shows no text: perhaps a file such as a PDF or a picture, or a page that is still loading.)"


def split_sections(text: str) -> dict[str, str]:
    """Return the sections of a reply by heading; of two with the same heading the first."""
    found: dict[str, str] = {}
    for part in _HEADING.split(text)[1:]:
        heading, _, body = part.partition("\n")
        found.setdefault(heading.strip(), body.strip("\n"))
    return found


def read_open_page(text: str) -> tuple[str, str]:
    """Return address and title of the page that a reply says is open; empty if it does not say."""
    about = split_sections(text.partition(_DIALOG)[0]).get("Page", "")
    url, title = _ADDRESS.search(about), _TITLE.search(about)
    return url[1].strip() if url else "", title[1].strip() if title else ""


def read_failure(text: str) -> str:
    """Return the error in a reply as one line, without Playwright's log."""
    said = split_sections(text).get("Error", text)
    said = _CALL_LOG.sub("", _COLOUR.sub("", said)).removeprefix("Error: ")
    return " ".join(said.split())[:500] or "no reason was given"


def read_dialog(text: str) -> str:
    """Return the open dialog of a page; "" without one."""
    return text.partition(_DIALOG)[2].strip()[:1000]


def build_result(acted: str, shown: str, with_snapshot: bool = True) -> ToolResult:
    """Return what the agent sees after an action: page, result of the action, tabs and snapshot, not yet cut.

    Args:
        acted: the reply to the action; "" if the action was the snapshot itself.
        shown: the reply to the `browser_snapshot` that followed.
        with_snapshot: false if only the action's own result was asked for.
    """
    (url, title), seen, said = read_open_page(shown), split_sections(shown), split_sections(acted)
    header = f"{url}{f' {title!r}' if title else ''} (browser, {datetime.now(UTC).date().isoformat()})"
    parts = [f"Tabs:\n{seen['Open tabs']}"] if "Open tabs" in seen else []
    parts += [said["Result"]] if "Result" in said and said["Result"] != seen.get("Open tabs") else []
    if with_snapshot:
        snapshot = _FENCE.sub("", seen.get("Snapshot", "")).strip()
        parts.append(snapshot or (_NO_PAGE_OPEN if url == BLANK else _NO_TEXT))
    return show_below(header, "\n\n".join(parts), url, title)


def show_below(header: str, body: str, url: str, title: str = "") -> ToolResult:
    text = replace_surrogates(f"{header}\n\n{body}" if body else header)
    shown = [Excerpt(url, title, len(text) - len(body), len(text))] if body else []
    return ToolResult(text, kind="browser_page", excerpts=shown)


def remove_controls(snapshot: str) -> str:
    """Return a page's own text: without fields and what was typed there, tabs, addresses, roles and search terms."""
    return _CONTROLS.sub("", snapshot)
