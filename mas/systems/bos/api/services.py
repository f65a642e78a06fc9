"""Services of the API-docs agent during a run: catalogue, HTTP client, Firebase tokens, a started API.

`system.api.command` starts an API for the time of the run, such as that of a sample; it prints its address first.
Tokens by e-mail and password are kept in memory and in a file, which is readable by its owner alone. Its keys are
digests: it names no e-mail address. A token that has expired or is refused is replaced by signing in again.
"""

import asyncio
import hashlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from pydantic import TypeAdapter

from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.security.child_environment import build_child_environment
from mas.runtime.security.private_file import find_state_folder, write_atomically
from mas.runtime.text import is_web_address
from mas.systems.bos.api.catalogue import Catalogue, load_catalogue
from mas.systems.bos.contracts import AgentFailureError
from mas.systems.bos.settings import LOOPBACK, ApiSettings

IDENTITY = "identitytoolkit.googleapis.com"
EMULATOR = "FIREBASE_AUTH_EMULATOR_HOST"  # variable of Firebase's own tools
MARGIN_SECONDS = 60.0  # a token that expires earlier is not used
TIMEOUT_SECONDS = 30.0
START_SECONDS = 30.0  # of an API that is started
END_SECONDS = 5.0

_Token = tuple[str, float]  # and when it expires, in seconds since the epoch
_TOKENS = TypeAdapter(dict[str, _Token])  # by account


@dataclass(frozen=True, repr=False)
class Credentials:
    """Account of a Firebase project; its values are never shown."""

    api_key: str
    email: str
    password: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.api_key}\0{self.email}".encode()).hexdigest()


class FirebaseTokens:
    """Tokens of a run, by account."""

    def __init__(self, url: str, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._url, self._file, self._clock = url, file, clock
        self._kept: dict[str, _Token] = {}
        self._lock = asyncio.Lock()

    async def find(self, credentials: Credentials, client: httpx.AsyncClient, refused: str | None = None) -> str:
        """Return a valid token, kept or new, that is not the one that the API has `refused`."""
        account = credentials.digest
        async with self._lock:
            token, expires_at = self._kept.get(account) or self._read_file().get(account) or ("", 0.0)
            if token == refused or expires_at - MARGIN_SECONDS <= self._clock():
                token, expires_at = await self._sign_in(credentials, client)
                with suppress(OSError):  # a file that cannot be written costs the next run a sign-in
                    self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    with write_atomically(self._file) as file:
                        tokens = self._read_file() | {account: (token, expires_at)}
                        file.write(_TOKENS.dump_json(tokens).decode())
            self._kept[account] = token, expires_at
            return token

    async def _sign_in(self, credentials: Credentials, client: httpx.AsyncClient) -> _Token:
        url = f"{self._url}/v1/accounts:signInWithPassword"
        account = {"email": credentials.email, "password": credentials.password, "returnSecureToken": True}
        try:
            reply = await client.post(url, params={"key": credentials.api_key}, timeout=TIMEOUT_SECONDS, json=account)
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # its text may hold the key
            reason = f"Firebase cannot be reached ({type(error).__name__})"
            raise AgentFailureError("HttpRequestError", reason) from None
        if reply.status_code != httpx.codes.OK:
            raise AgentFailureError(
                "ConfigurationError",
                f"Firebase refused the account of the API (HTTP {reply.status_code}); check its e-mail address, "
                "password and web API key",
            )
        try:
            content = reply.json()
            return str(content["idToken"]), self._clock() + float(content["expiresIn"])
        except (ValueError, KeyError, TypeError):
            raise AgentFailureError("HttpRequestError", "Firebase's reply holds no token") from None

    def _read_file(self) -> dict[str, _Token]:
        """Return the tokens of earlier runs; a file that is missing or damaged has none."""
        try:
            return _TOKENS.validate_json(self._file.read_bytes())
        except (OSError, ValueError):
            return {}


@dataclass(frozen=True)
class ApiServices:
    """Open as long as a run; requests share them."""

    catalogue: Catalogue
    tokens: FirebaseTokens
    settings: ApiSettings  # with the address of an API that was started
    client: httpx.AsyncClient


@contextmanager
def open_api(settings: ApiSettings) -> Iterator[ApiServices]:
    """Read the documentation, start the API if there is a command, and open a client."""
    catalogue, emulator = load_catalogue(Path(settings.documentation or "")), os.environ.get(EMULATOR)
    firebase = f"http://{emulator}/{IDENTITY}" if emulator else f"https://{IDENTITY}"
    tokens = FirebaseTokens(firebase, find_state_folder() / "firebase_tokens.json")
    with ExitStack() as opened:
        if settings.command:
            settings = replace(settings, base_url=opened.enter_context(run_api(settings.command)))
        client = httpx.AsyncClient(limits=httpx.Limits(max_connections=None, max_keepalive_connections=20))
        opened.callback(lambda: run_blocking(client.aclose()))
        yield ApiServices(catalogue, tokens, settings, client)


@contextmanager
def run_api(command: Sequence[str]) -> Iterator[str]:
    shown = " ".join(command)
    words = [sys.executable if command[0] == "python" else command[0], *command[1:]]
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=build_child_environment()
        )
    except OSError as error:
        raise UserError(f"system.api.command={shown} cannot be started ({error}); correct it.") from error
    with process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
            address = process.stdout.readline().strip() if ready else ""
            if not is_web_address(address) or urlsplit(address).hostname not in LOOPBACK:
                raise UserError(
                    f"system.api.command={shown} printed {address[:80]!r} within {START_SECONDS:g} s; expected an "
                    "address of this machine as its first line, such as http://127.0.0.1:8080."
                )
            yield address.rstrip("/")
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()
