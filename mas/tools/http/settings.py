"""Settings of the web tools: limits, services, hosts.

WebSettings(max_searches_per_question=5).check()
"""

import os
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mas.runtime.errors import UserError
from mas.tools.http.blocked_sites import BLOCKED_SITES

_POSITIVE = ("seconds", "attempts", "search_results")
_RATES = (
    *("search_requests_per_minute", "wikipedia_requests_per_minute", "youtube_requests_per_minute"),
    *("pages_per_minute_and_host", "max_searches_per_question"),
)


@dataclass
class WebSettings:
    """The `tools.web` part of the configuration."""

    seconds: float = 45.0  # for one page, search or transcript: redirects, retries and all
    pages_per_minute_and_host: float | None = 60.0  # null: as fast as the questions ask
    attempts: int = 3  # of a request that fails for a reason that may be temporary
    contact: str = ""  # mail address or web page of whoever runs this, for the user agent: Wikipedia asks for one
    search_base_url: str = "https://api.tavily.com"
    search_api_key_env: str = "TAVILY_API_KEY"  # name of the environment variable that holds the key
    search_results: int = 8  # of one search, at most 20
    search_requests_per_minute: float | None = 90.0  # null: as fast as the questions ask
    max_searches_per_question: int | None = 25  # null: no limit
    fall_back_to_wikipedia: bool = True  # where web search fails or has no key; the observation says so
    wikipedia_url: str = "https://{language}.wikipedia.org/w/api.php"
    wikipedia_language: str = "en"
    wikipedia_requests_per_minute: float | None = 180.0  # null: as fast as the questions ask
    youtube_url: str = "https://www.youtube.com"
    youtube_requests_per_minute: float | None = 60.0  # null: as fast as the questions ask
    blocked_sites: list[str] | None = None  # pages that publish answers; null: those of blocked_sites.py
    more_blocked_sites: list[str] = field(default_factory=list)  # added to these
    allow_private_hosts: list[str] = field(default_factory=list)  # "host" or "host:port"; for tests alone

    def check(self) -> None:
        """Check the ranges and forms of all values.

        Raises:
            UserError: a value is out of range.
        """
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise UserError(f"tools.web.{name}={getattr(self, name)} is out of range; expected more than 0.")
        for name in _RATES:
            if (value := getattr(self, name)) is not None and value <= 0:
                raise UserError(
                    f"tools.web.{name}={value} is out of range; expected more than 0, or null for no limit."
                )
        if self.search_results > 20:
            raise UserError(f"tools.web.search_results={self.search_results} is out of range; expected 1 to 20.")
        self._check_texts()

    def _check_texts(self) -> None:
        for name in ("search_base_url", "wikipedia_url", "youtube_url"):
            parts = urlsplit(getattr(self, name))
            if parts.scheme not in ("http", "https") or not parts.netloc:
                raise UserError(f"tools.web.{name}={getattr(self, name)!r} is no URL; expected one with http or https.")
        if not re.fullmatch(r"[a-z][a-z0-9-]{1,20}", self.wikipedia_language):
            raise UserError(f"tools.web.wikipedia_language={self.wikipedia_language!r}; expected a code such as en.")
        if not re.fullmatch(r"[\x20-\x7e]{0,200}", self.contact):
            raise UserError("tools.web.contact goes into a request's header; expected at most 200 ASCII characters.")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.search_api_key_env):
            raise UserError(
                "tools.web.search_api_key_env is no name of an environment variable; never put a key there."
            )
        for name in ("blocked_sites", "more_blocked_sites"):
            for entry in getattr(self, name) or []:
                _check_blocked(f"tools.web.{name}", entry)

    @property
    def blocked(self) -> tuple[str, ...]:
        """Addresses, or parts of addresses, that are refused."""
        return (*(BLOCKED_SITES if self.blocked_sites is None else self.blocked_sites), *self.more_blocked_sites)

    @property
    def search_api_key(self) -> str:
        """Key of the search service, "" without one."""
        return os.environ.get(self.search_api_key_env, "").strip()

    @property
    def wikipedia_api(self) -> str:
        return self.wikipedia_url.replace("{language}", self.wikipedia_language)

    @property
    def user_agent(self) -> str:
        """User agent for services, in the form that Wikimedia's policy asks for."""
        return f"mas-harness/0.1 ({self.contact or 'no contact given'}) httpx"


def _check_blocked(name: str, entry: str) -> None:
    """Check an entry of a block list.

    Raises:
        UserError: the entry occurs in every address, or in none.
    """
    if not entry.strip("* "):
        raise UserError(f"{name} has an empty entry, which would block everything; take it out.")
    if "//" in entry or entry != entry.strip():
        raise UserError(
            f"{name} has {entry!r}, which is found in no address; give host and path without http:// and without "
            "spaces, such as example.org/answers."
        )
