"""Check that a server listens at an address, before anything is spent."""

import socket
from urllib.parse import urlsplit

from mas.runtime.errors import UserError

CONNECT_TIMEOUT_SECONDS = 5.0


def check_reachable(url: str, key: str, server: str, example: str) -> None:
    """Check an address by opening a connection; UserError: it is no URL, or nothing listens.

    The message names the option `key`, the expected `server` and an `example`; it repeats no user name or password.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:  # such as an IPv6 address without its closing bracket
        raise UserError(f"{key} is not a URL ({error}); expected something like {example}.") from error
    if parts.username or parts.password:
        raise UserError(
            f"{key} holds a user name or password, and a configuration is saved with its run; put the secret into an "
            "environment variable and name that."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{key}={url} is not a URL; expected something like {example}.")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname, port), timeout=CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"no {server} answers at {key}={parts.scheme}://{parts.netloc} ({error}); start it, or correct the address."
        ) from error
