"""Settings of the system: `conf/system/bos.yaml` without its agents' models, and environment variables next to it."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mas.runtime.errors import UserError
from mas.runtime.text import is_web_address
from mas.systems.bos.context import Clock, read_clock
from mas.systems.bos.contracts import AGENT_NAMES

BASE_URL_ENV = "BOS_API_BASE_URL"  # counts before `api.base_url`
TOKEN_ENV = "BOS_API_TOKEN"
FIREBASE_ENV = ("FIREBASE_WEB_API_KEY", "FIREBASE_EMAIL", "FIREBASE_PASSWORD")
SERVICE_TOKEN_ENV = "BOS_SERVICE_TOKEN"  # the variable with the token that clients send; not set: none is needed
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MATCHES = ("substring", "word")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_MIN_TOKEN_CHARS = 16
_ENDINGS = (".sqlite", ".db", ".sqlite3")  # of files of SQLite


@dataclass
class PlannerSettings:
    """Keywords that propose agents before the language model decides."""

    match: str = "substring"  # substring: "capital" counts for "api" | word: whole words alone
    keywords: dict[str, list[str]] = field(default_factory=dict)  # by agent

    def check(self) -> None:
        _check_choice("planner.match", [self.match], _MATCHES)
        _check_choice("planner.keywords", self.keywords, AGENT_NAMES)


@dataclass
class ComputationSettings:
    """Code of the computation agent; limits of time, memory and output are in `tools.sandbox`."""

    repair_attempts: int = 0  # after an error of the code, with the error as feedback

    def check(self) -> None:
        _check_range("computation", self, "repair_attempts", lowest=0, highest=5)


@dataclass
class ApiSettings:
    """Address and documentation of the API, and what may be sent to it."""

    documentation: str | None = None  # path of api_docs_context.yaml; null: no API
    command: list[str] = field(default_factory=list)  # starts an API for the run; its first line is its address
    base_url: str | None = None  # null: that of the documentation
    hosts: list[str] = field(default_factory=list)  # "host" or "host:port" that a request's `api_base_url` may name
    methods: list[str] = field(default_factory=lambda: ["GET"])  # others are refused
    timeout_seconds: float = 30.0  # of a request
    top_k: int = 8  # endpoints, and snippets, that the planning prompt describes in full

    def check(self) -> None:
        _check_range("api", self, "timeout_seconds")
        _check_range("api", self, "top_k", lowest=1)
        _check_choice("api.methods", [each.upper() for each in self.methods], _METHODS)
        if self.base_url is not None and not is_web_address(self.base_url):
            raise UserError(
                f"system.api.base_url={self.base_url} is no address; expected for example https://api.example.org."
            )


@dataclass
class DatabaseSettings:
    """One database: either a file of SQLite or the address of a PostgreSQL."""

    path: str | None = None  # file of SQLite
    url_env: str | None = None  # environment variable with the address of a PostgreSQL, its password included
    tables: list[str] = field(default_factory=list)  # that may be read: names, or "*" for all
    check_role: bool = True  # PostgreSQL: refuse a role that can do more than read these tables


@dataclass
class QueryLimits:
    """Limits of one query; those of its length and of its rows in bytes are constants next to their use."""

    max_rows: int = 200
    seconds: float = 10.0


@dataclass
class SqlSettings:
    """Databases of the SQL agent."""

    databases: dict[str, DatabaseSettings] = field(default_factory=dict)
    limits: QueryLimits = field(default_factory=QueryLimits)
    max_retries: int = 3  # after a query that was refused or failed
    folder: str | None = None  # of further files of SQLite, each a database
    folder_tables: dict[str, list[str]] = field(default_factory=dict)  # database → tables; of others in `folder` all

    def check(self) -> None:
        """Check the settings before anything is started.

        Raises:
            UserError: a setting is out of range or contradicts another.
        """
        _check_range("sql", self, "max_retries", lowest=0, highest=10)
        _check_range("sql.limits", self.limits, "max_rows", "seconds")
        if self.folder is not None and not find_files(Path(self.folder)):
            raise UserError(
                f"system.sql.folder={self.folder} has no SQLite file; expected NAME.sqlite or NAME/NAME.sqlite in it."
            )
        if self.folder is not None:
            _check_choice("sql.folder_tables", self.folder_tables, list(self.list_databases()))
        for name, database in self.list_databases().items():
            if not database.tables:
                raise UserError(
                    f"system.sql.databases.{name} lists no tables; name those that may be read, or '*' for all."
                )
            if bool(database.path) == bool(database.url_env):
                raise UserError(f"system.sql.databases.{name} needs either a path (SQLite) or url_env (PostgreSQL).")

    def list_databases(self) -> dict[str, DatabaseSettings]:
        """Return all databases by name: those of the folder, and those that are named."""
        found = find_files(Path(self.folder)) if self.folder is not None else {}
        files = {
            name: DatabaseSettings(path=str(file), tables=self.folder_tables.get(name, ["*"]))
            for name, file in found.items()
        }
        return {**files, **self.databases}

    def list_secrets(self) -> Sequence[str]:
        """Return the values that no trace, log or record may show: addresses of databases, and passwords in them."""
        addresses = [os.environ.get(database.url_env or "", "") for database in self.databases.values()]
        passwords = [find_password(address) for address in addresses]
        return [*filter(None, addresses), *passwords, *(unquote(each) for each in passwords)]


@dataclass
class ServiceSettings:
    """Address and limits of the HTTP service."""

    host: str = "127.0.0.1"  # another one needs a token
    port: int = 8765  # 0: any that is free
    max_requests: int = 16  # at once; others are refused with 429
    request_seconds: float = 300.0  # of one request, until its answer is ready to be sent

    @property
    def token(self) -> str:
        """The token that clients send; empty if none is needed."""
        return os.environ.get(SERVICE_TOKEN_ENV, "")

    def check(self) -> None:
        _check_range("service", self, "port", lowest=0, highest=65535)
        _check_range("service", self, "max_requests", "request_seconds")

    def check_token(self) -> None:
        """Check that others can reach the service with a token only.

        Raises:
            UserError: the token is missing or too short.
        """
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


@dataclass
class BosSettings:
    """Settings of the program and its agents."""

    share_results: bool = False  # true: an agent sees what earlier ones found
    current_time: str | None = None  # in all requests, with its UTC offset; None: when each began
    planner: PlannerSettings = field(default_factory=PlannerSettings)
    computation: ComputationSettings = field(default_factory=ComputationSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)

    def check_parts(self) -> None:
        """Check the settings before anything is loaded.

        Raises:
            UserError: one is unknown or out of range.
        """
        self.read_clock()
        self.planner.check()
        self.computation.check()
        self.api.check()
        self.sql.check()

    def read_clock(self) -> Clock:
        """Return the clock of all requests: one that always shows `current_time` if that is given."""
        if self.current_time is None:
            return read_clock
        try:
            fixed = datetime.fromisoformat(self.current_time)
        except ValueError:
            fixed = None
        if fixed is None or fixed.tzinfo is None:
            raise UserError(
                f"system.current_time={self.current_time} is not a time with a UTC offset; expected one like "
                "2026-11-22T09:30:00+00:00, or null for the present time."
            )
        now = fixed.astimezone(UTC)
        return lambda: now


def list_api_secrets() -> Sequence[str]:
    """Return the values that no trace, log or record may show."""
    return [os.environ[name] for name in (TOKEN_ENV, *FIREBASE_ENV) if os.environ.get(name)]


def find_files(folder: Path) -> dict[str, Path]:
    """Return the SQLite files of a folder by name: those in it and, at any depth, those in a folder of their name."""
    files = [file for ending in _ENDINGS for file in folder.rglob(f"*{ending}")]
    return {file.stem: file for file in sorted(files) if file.parent == folder or file.parent.name == file.stem}


def find_password(address: str) -> str:
    """Return the password in an address; empty if there is none."""
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""


def _check_choice(key: str, chosen: Iterable[str], known: Sequence[str]) -> None:
    if unknown := [each for each in chosen if each not in known]:
        raise UserError(f"system.{key} names {', '.join(unknown)}; choose among: {', '.join(known)}.")


def _check_range(
    place: str, settings: object, *names: str, lowest: float | None = None, highest: float | None = None
) -> None:
    """Check that numbers are within their bounds, which count as well; without bounds they must be more than 0."""
    above = f"{lowest} or more" if lowest is not None else "more than 0"
    expected = f"{lowest} to {highest}" if highest is not None else above
    for name in names:
        value = getattr(settings, name)
        is_right = value > 0 if lowest is None else lowest <= value and (highest is None or value <= highest)
        if not is_right:
            raise UserError(f"system.{place}.{name}={value} is out of range; expected {expected}.")
