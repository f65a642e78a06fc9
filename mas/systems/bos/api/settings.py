"""Settings of the API-docs agent: part `api` of `conf/system/bos.yaml`, and the environment variables next to it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mas.runtime.errors import UserError

BASE_URL_ENV = "BOS_API_BASE_URL"  # counts before `base_url`
TOKEN_ENV = "BOS_API_TOKEN"
FIREBASE_ENV = ("FIREBASE_WEB_API_KEY", "FIREBASE_EMAIL", "FIREBASE_PASSWORD")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass
class ApiSettings:
    """Address and documentation of the API, and what may be sent to it."""

    documentation: str | None = None  # path of api_docs_context.yaml or of an OpenAPI 3 document; null: no API
    command: list[str] = field(default_factory=list)  # starts an API for the run; its first line is its address
    base_url: str | None = None  # null: that of the documentation
    hosts: list[str] = field(default_factory=list)  # "host" or "host:port" that a request's `api_base_url` may name
    methods: list[str] = field(default_factory=lambda: ["GET"])  # others are refused
    timeout_seconds: float = 30.0  # of a request
    top_k: int = 8  # endpoints, and snippets, that the planning prompt describes in full

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: a value is out of range.
        """
        if self.timeout_seconds <= 0:
            raise UserError(f"system.api.timeout_seconds={self.timeout_seconds} must be more than 0.")
        if self.top_k < 1:
            raise UserError(f"system.api.top_k={self.top_k} is too small; at least 1 is needed.")
        if unknown := [each for each in self.methods if each.upper() not in _METHODS]:
            raise UserError(f"system.api.methods names {', '.join(unknown)}; choose among: {', '.join(_METHODS)}.")
        if self.base_url is not None and not is_web_address(self.base_url):
            raise UserError(
                f"system.api.base_url={self.base_url} is no address; expected for example https://api.example.org."
            )


def list_api_secrets(environment: Mapping[str, str] = os.environ) -> Sequence[str]:
    """Return the values that no trace, log or record may show."""
    return [environment[name] for name in (TOKEN_ENV, *FIREBASE_ENV) if environment.get(name)]


def is_web_address(url: str) -> bool:
    """Return whether it is a web address with a host and without a user, a query or a fragment."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not (parts.username or parts.password or parts.query or parts.fragment)
        )
    except ValueError:
        return False
