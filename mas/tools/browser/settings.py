"""Settings of the browser: address of its server, limits."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from mas.runtime.errors import UserError

EXAMPLE_URL = "http://127.0.0.1:3000/mcp"


@dataclass
class BrowserSettings:
    """The `tools.browser` part of the configuration; `make browser` starts a Playwright MCP server at this address."""

    url: str | None = EXAMPLE_URL  # its streamable HTTP address; null: no browser
    max_sessions: int = 8  # browser windows at a time; a further question waits
    action_seconds: float = 60.0  # one action, with the loading of the page that it leads to
    tools: list[str] | None = None  # names of the server's tools that agents get; null: ALLOWED in tools.py

    def check(self) -> None:
        """Check all values.

        Raises:
            UserError: a value is invalid.
        """
        if self.url is not None:
            _check_url(self.url)
        if self.max_sessions < 1:
            raise UserError(f"tools.browser.max_sessions={self.max_sessions} is too small; at least 1 is needed.")
        if not self.action_seconds > 0:
            raise UserError(
                f"tools.browser.action_seconds={self.action_seconds} is out of range; expected more than 0."
            )


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.username or parts.password:  # it would be saved with the configuration; the message does not repeat it
        raise UserError(
            "tools.browser.url holds a user name or password, which would be saved with the run; "
            "let the browser's server listen where only this machine can reach it."
        )
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        usable = False
    if not usable:
        raise UserError(f"tools.browser.url={url} is not a URL; expected something like {EXAMPLE_URL}, or null.")
