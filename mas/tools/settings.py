"""The `tools` part of the configuration, and the run's settings for tools that are called."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS
from mas.runtime.text import is_web_address

_Settings = TypeVar("_Settings")
EXAMPLE_URL = "http://127.0.0.1:3000/mcp"
AUTO, BUBBLEWRAP, DENO, REFUSE = "auto", "bubblewrap", "deno", "refuse"
KINDS = (AUTO, BUBBLEWRAP, DENO, REFUSE)
SEARCH_KEY_ENV = "TAVILY_API_KEY"  # environment variable that holds the key of the web search
MIN_MEMORY_MB = 128  # Python itself, and numpy


@dataclass
class TranscriptionSettings:
    """The `tools.transcription` part of the configuration."""

    model: str | None = None  # such as whisper-1; null: sounds are not transcribed
    base_url: str | None = None  # up to and with /v1; null: OpenAI
    api_key_env: str | None = "OPENAI_API_KEY"  # variable that holds the key; null: none needed

    @property
    def api_key(self) -> str:
        return os.environ.get(self.api_key_env or "", "").strip()

    @property
    def is_on(self) -> bool:
        """True if there is a model, and a key where one is needed."""
        return self.model is not None and (self.api_key_env is None or bool(self.api_key))


@dataclass
class WebSettings:
    """The `tools.web` part of the configuration; what `conf/tools/` leaves out is for tests."""

    contact: str = ""  # mail address or page of who runs this, for the user agent
    wikipedia_language: str = "en"
    more_blocked_sites: list[str] = field(default_factory=list)  # in addition to those of url_policy.py
    seconds: float = 45.0  # for one page, search or transcript: redirects, retries and all
    search_base_url: str = "https://api.tavily.com"
    wikipedia_url: str = "https://{language}.wikipedia.org/w/api.php"
    youtube_url: str = "https://www.youtube.com"
    allow_private_hosts: list[str] = field(default_factory=list)  # "host" or "host:port"

    def check(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{1,20}", self.wikipedia_language):
            raise UserError(f"tools.web.wikipedia_language={self.wikipedia_language!r}; expected a code such as en.")
        if not (self.contact.isascii() and self.contact.isprintable()):
            raise UserError("tools.web.contact goes into a request's header; expected ASCII characters alone.")
        for entry in self.more_blocked_sites:
            if not entry.strip("* ") or "//" in entry or entry != entry.strip():
                raise UserError(
                    f"tools.web.more_blocked_sites has {entry!r}; expected host and path without http:// and without "
                    "spaces, such as example.org/answers."
                )

    @property
    def search_api_key(self) -> str:
        return os.environ.get(SEARCH_KEY_ENV, "").strip()

    @property
    def wikipedia_api(self) -> str:
        return self.wikipedia_url.replace("{language}", self.wikipedia_language)

    @property
    def user_agent(self) -> str:
        """User agent for services, in the form that Wikimedia's policy asks for."""
        return f"mas-harness/0.1 ({self.contact or 'no contact given'}) httpx"


@dataclass
class BrowserSettings:
    """The `tools.browser` part of the configuration; `make browser` starts a server at this address."""

    url: str | None = EXAMPLE_URL  # its streamable HTTP address; null: no browser

    def check(self) -> None:
        if self.url is not None and not is_web_address(self.url):
            raise UserError(
                f"tools.browser.url is not a URL without a password and a query; expected one like {EXAMPLE_URL}."
            )


@dataclass
class SandboxSettings:
    """The `tools.sandbox` part of the configuration."""

    kind: str = AUTO  # auto: bubblewrap, else Deno, else refuse
    seconds_per_call: float = 30.0  # wall time; then the code is stopped and its variables are lost
    memory_mb: int = 1024  # address space of the code; with Deno: resident memory

    def check(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"tools.sandbox.kind is {self.kind!r}; expected one of: {', '.join(KINDS)}.")
        if not self.seconds_per_call > 0:
            raise UserError(f"tools.sandbox.seconds_per_call={self.seconds_per_call}; expected more than 0.")
        if self.memory_mb < MIN_MEMORY_MB:
            raise UserError(f"tools.sandbox.memory_mb is {self.memory_mb}; expected at least {MIN_MEMORY_MB}.")


@dataclass
class ToolSettings:
    """Settings of all tools; each `check` raises UserError for a value that cannot be used."""

    fail_fast: bool = False  # true: the first tool failure ends the question
    transcription: TranscriptionSettings = field(default_factory=TranscriptionSettings)
    web: WebSettings = field(default_factory=WebSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)

    def secrets(self) -> list[str]:
        """Return the values that no log, record or report may show."""
        keys = (self.web.search_api_key, self.transcription.api_key)
        return [key for key in keys if len(key) >= MIN_SECRET_CHARS]

    def check(self) -> None:
        for part in (self.web, self.browser, self.sandbox):
            part.check()


@dataclass(frozen=True)
class Resources:
    """Settings of the tools, and the services that are open as long as the run."""

    settings: ToolSettings = field(default_factory=ToolSettings)
    services: Mapping[str, object] = field(default_factory=dict)  # by name, such as "browser"
    broken: tuple[str, ...] = ()  # a sentence for each tool that cannot work here, with its remedy


_context: ContextVar[Resources | None] = ContextVar("tool_context", default=None)


@contextmanager
def use_tool_context(resources: Resources) -> Iterator[None]:
    """Set the context of the tool calls made inside, also in tasks and threads started there."""
    token = _context.set(resources)
    try:
        yield
    finally:
        _context.reset(token)


def get_settings(kind: type[_Settings]) -> _Settings:
    """Return the run's settings of this type, all or a field; outside a run the defaults."""
    settings = (_context.get() or Resources()).settings
    return next((part for part in (settings, *vars(settings).values()) if isinstance(part, kind)), None) or kind()
