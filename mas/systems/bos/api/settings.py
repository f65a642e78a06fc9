"""Settings of the API-docs agent: the `api` part of `conf/system/bos.yaml`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mas.runtime.errors import UserError

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass
class ApiSettings:
    """Address and documentation of the API, and what may be sent to it. Secrets are named by their variables."""

    documentation: str | None = None  # path of api_docs_context.yaml or of an OpenAPI 3 document; null: no API
    command: list[str] = field(default_factory=list)  # starts an API for the run; its first line is its address
    base_url: str | None = None  # null: that of the documentation
    base_url_env: str = "BOS_API_BASE_URL"  # this variable counts before `base_url`
    hosts: list[str] = field(default_factory=list)  # "host" or "host:port" that a request's `api_base_url` may name
    methods: list[str] = field(default_factory=lambda: ["GET"])  # others are refused
    token_env: str = "BOS_API_TOKEN"
    firebase_key_env: str = "FIREBASE_WEB_API_KEY"
    firebase_email_env: str = "FIREBASE_EMAIL"
    firebase_password_env: str = "FIREBASE_PASSWORD"
    identity_url: str = "https://identitytoolkit.googleapis.com"  # FIREBASE_AUTH_EMULATOR_HOST counts before
    securetoken_url: str = "https://securetoken.googleapis.com"
    token_file: str | None = None  # null: firebase_tokens.json in the folder of the installation's key
    timeout_seconds: float = 30.0  # of a request
    max_response_bytes: int = 200_000  # what is longer is cut
    top_k: int = 8  # endpoints, and snippets, that the planning prompt describes in full

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: a value is out of range.
        """
        if self.timeout_seconds <= 0:
            raise UserError(f"system.api.timeout_seconds={self.timeout_seconds} must be more than 0.")
        for name in ("max_response_bytes", "top_k"):
            if (value := getattr(self, name)) < 1:
                raise UserError(f"system.api.{name}={value} is too small; at least 1 is needed.")
        if unknown := [each for each in self.methods if each.upper() not in _METHODS]:
            raise UserError(f"system.api.methods names {', '.join(unknown)}; choose among: {', '.join(_METHODS)}.")
        for name in ("base_url", "identity_url", "securetoken_url"):
            if (url := getattr(self, name)) is not None and not is_web_address(url):
                raise UserError(f"system.api.{name}={url} is no address; expected for example https://api.example.org.")

    def list_secrets(self, environment: Mapping[str, str] = os.environ) -> Sequence[str]:
        """Return the values that no trace, log or record may show."""
        names = (self.token_env, self.firebase_key_env, self.firebase_email_env, self.firebase_password_env)
        return [environment[name] for name in names if environment.get(name)]


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
