"""Settings of the service: part `service` of `conf/system/bos.yaml`."""

import os
from dataclasses import dataclass

from mas.runtime.errors import UserError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_ENV = "BOS_SERVICE_TOKEN"  # the variable with the token that clients send; not set: none is needed
_MIN_TOKEN_CHARS = 16
_POSITIVE = ("max_body_bytes", "max_requests", "request_seconds")


@dataclass
class ServiceSettings:
    """Address and limits."""

    host: str = "127.0.0.1"  # another one needs a token
    port: int = 8765  # 0: any that is free
    max_body_bytes: int = 100_000  # of a request
    max_requests: int = 16  # at once; others are refused with 429
    request_seconds: float = 300.0  # of one request, until its answer has been sent
    drain_seconds: float = 30.0  # for requests in flight after SIGTERM

    @property
    def token(self) -> str:
        """The token that clients send; empty if none is needed."""
        return os.environ.get(TOKEN_ENV, "")

    def check(self) -> None:
        """Check the numbers.

        Raises:
            UserError: one is out of range.
        """
        if not 0 <= self.port <= 65535:
            raise UserError(f"system.service.port={self.port} is out of range; expected 0 to 65535.")
        for key in _POSITIVE:
            if getattr(self, key) <= 0:
                raise UserError(f"system.service.{key}={getattr(self, key)} is out of range; expected more than 0.")
        if self.drain_seconds < 0:
            raise UserError(f"system.service.drain_seconds={self.drain_seconds} is out of range; expected 0 or more.")

    def check_token(self) -> None:
        """Check that others can reach the service with a token only.

        Raises:
            UserError: the token is missing or too short.
        """
        if self.token and len(self.token) < _MIN_TOKEN_CHARS:
            raise UserError(
                f"{TOKEN_ENV} has {len(self.token)} characters; a token needs {_MIN_TOKEN_CHARS} or more: "
                "python -c 'import secrets; print(secrets.token_urlsafe())' makes one."
            )
        if not self.token and self.host not in LOOPBACK:
            raise UserError(
                f"system.service.host={self.host} can be reached by others, who need a token; put one into the "
                f"environment variable {TOKEN_ENV}, or leave the host out."
            )
