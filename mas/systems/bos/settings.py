"""Parts of `conf/system/bos.yaml`, and environment variables next to it."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from mas.runtime.errors import UserError

BASE_URL_ENV = "BOS_API_BASE_URL"  # counts before `api.base_url`
TOKEN_ENV = "BOS_API_TOKEN"
FIREBASE_ENV = ("FIREBASE_WEB_API_KEY", "FIREBASE_EMAIL", "FIREBASE_PASSWORD")
SERVICE_TOKEN_ENV = "BOS_SERVICE_TOKEN"  # with the token that clients send; not set: none is needed
LOOPBACK = ("127.0.0.1", "::1", "localhost")
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_MIN_TOKEN_CHARS = 16
_ENDINGS = (".sqlite", ".db", ".sqlite3")  # of files of SQLite


@dataclass
class ApiSettings:
    """Address and documentation of the API, and what may be sent to it."""

    documentation: str | None = None  # path of api_docs_context.yaml; null: no API
    command: list[str] = field(default_factory=list)  # starts an API; its first line is its address
    base_url: str | None = None  # null: that of the documentation
    hosts: list[str] = field(default_factory=list)  # "host" or "host:port" for a request's `api_base_url`
    methods: list[str] = field(default_factory=lambda: ["GET"])  # others are refused
    timeout_seconds: float = 30.0  # of a request
    top_k: int = 8  # endpoints, and snippets, that the planning prompt describes in full


@dataclass
class DatabaseSettings:
    """One database: either a file of SQLite or the address of a PostgreSQL."""

    path: str | None = None  # file of SQLite
    url_env: str | None = None  # variable with a PostgreSQL's address, its password included
    tables: list[str] = field(default_factory=list)  # that may be read: names, or "*" for all


@dataclass
class SqlSettings:
    """Databases of the SQL agent; the limits of a query are constants next to their use."""

    databases: dict[str, DatabaseSettings] = field(default_factory=dict)
    max_retries: int = 3  # after a query that was refused or failed
    folder: str | None = None  # of further files of SQLite, each a database
    folder_tables: dict[str, list[str]] = field(default_factory=dict)  # database → tables; others: all

    def list_databases(self) -> dict[str, DatabaseSettings]:
        files = find_files(Path(self.folder)) if self.folder is not None else {}
        in_folder = {
            name: DatabaseSettings(path=str(file), tables=self.folder_tables.get(name, ["*"]))
            for name, file in files.items()
        }
        return {**in_folder, **self.databases}

    def list_secrets(self) -> Sequence[str]:
        """Return what no trace, log or record may show: databases' addresses, and passwords in them."""
        secrets: list[str] = []
        for address in (os.environ.get(database.url_env or "") for database in self.databases.values()):
            with suppress(ValueError):  # it is no address
                password = urlsplit(address or "").password or ""
                secrets += [password, unquote(password)]
            secrets.append(address or "")
        return [*filter(None, secrets)]


@dataclass
class ServiceSettings:
    """Address and limits of the HTTP service."""

    host: str = "127.0.0.1"  # another one needs a token
    port: int = 8765  # 0: any that is free
    max_requests: int = 16  # at once; others are refused with 429
    request_seconds: float = 300.0  # of one request, until its answer is ready to be sent

    @property
    def token(self) -> str:
        return os.environ.get(SERVICE_TOKEN_ENV, "")

    def check_token(self) -> None:
        """Check that others need a token for the service; UserError: it is missing or too short."""
        if self.token and len(self.token) < _MIN_TOKEN_CHARS:
            raise UserError(
                f"{SERVICE_TOKEN_ENV} has {len(self.token)} characters; a token needs {_MIN_TOKEN_CHARS} or more: "
                "python -c 'import secrets; print(secrets.token_urlsafe())' makes one."
            )
        if not self.token and self.host not in LOOPBACK:
            raise UserError(
                f"system.service.host={self.host} can be reached by others, who need a token; put one into the "
                f"environment variable {SERVICE_TOKEN_ENV}, or leave the host out."
            )


def list_api_secrets() -> Sequence[str]:
    """Return the values that no trace, log or record may show."""
    return [os.environ[name] for name in (TOKEN_ENV, *FIREBASE_ENV) if os.environ.get(name)]


def find_files(folder: Path) -> dict[str, Path]:
    """Return SQLite files by name: in the folder, or below it in a folder of their name."""
    files = [file for ending in _ENDINGS for file in folder.rglob(f"*{ending}")]
    return {file.stem: file for file in sorted(files) if file.parent == folder or file.parent.name == file.stem}


def check_choice(key: str, chosen: Iterable[str], known: Sequence[str]) -> None:
    if unknown := [name for name in chosen if name not in known]:
        raise UserError(f"system.{key} names {', '.join(unknown)}; choose among: {', '.join(known)}.")


def check(key: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise UserError(f"system.{key}={value} cannot be used; expected {expected}.")
