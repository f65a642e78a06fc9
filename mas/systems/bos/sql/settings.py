"""Settings of the SQL agent: the `sql` part of `conf/system/bos.yaml`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mas.runtime.errors import UserError

QUERY_TOOL, SCHEMA_TOOL = "mcp_db_query", "mcp_db_schema"
MAX_QUERY_CHARS = 10_000
ENDINGS = (".sqlite", ".db", ".sqlite3")  # of files of SQLite


@dataclass
class DatabaseSettings:
    """One database: either a file of SQLite or the address of a PostgreSQL."""

    path: str | None = None  # file of SQLite
    url_env: str | None = None  # environment variable with the address of a PostgreSQL, its password included
    tables: list[str] = field(default_factory=list)  # that may be read: names, or "*" for all
    check_role: bool = True  # PostgreSQL: refuse a role that can do more than read these tables


@dataclass
class QueryLimits:
    """Limits of one query."""

    max_rows: int = 200
    max_bytes: int = 100_000  # of the rows as JSON
    seconds: float = 10.0
    max_chars: int = MAX_QUERY_CHARS  # of the query


@dataclass
class ToolMap:
    """Tool of another server that does the work of one of ours."""

    tool: str
    arguments: dict[str, str] = field(default_factory=dict)  # our argument → its; others are not sent
    fixed: dict[str, str] = field(default_factory=dict)  # arguments that are always sent


@dataclass
class SqlSettings:
    """Databases of the SQL agent, and the server that they are behind."""

    databases: dict[str, DatabaseSettings] = field(default_factory=dict)
    limits: QueryLimits = field(default_factory=QueryLimits)
    url: str | None = None  # of a server that listens; null: one is started
    command: list[str] = field(default_factory=list)  # that starts another server; empty: our own
    environment: list[str] = field(default_factory=list)  # variables that another server needs, as patterns
    dialect: str = "sqlite"  # of another server's databases: sqlite | postgres
    max_retries: int = 3  # after a query that was refused or failed
    tool_map: dict[str, ToolMap] = field(default_factory=dict)  # our tool → another server's; empty: ours
    folder: str | None = None  # of further files of SQLite, each a database
    folder_tables: dict[str, list[str]] = field(default_factory=dict)  # database → tables; of others in `folder` all

    def check(self) -> None:
        """Check the settings before anything is started.

        Raises:
            UserError: a setting is unknown or contradicts another.
        """
        if self.dialect not in ("sqlite", "postgres"):
            raise UserError(f"system.sql.dialect={self.dialect} is not known; choose sqlite or postgres.")
        if not 0 <= self.max_retries <= 10:
            raise UserError(f"system.sql.max_retries={self.max_retries} is out of range; expected 0 to 10.")
        for name, value in vars(self.limits).items():
            if value <= 0:
                raise UserError(f"system.sql.limits.{name}={value} must be more than 0.")
        if self.tool_map and set(self.tool_map) != {QUERY_TOOL, SCHEMA_TOOL}:
            raise UserError(
                f"tool_map names {', '.join(sorted(self.tool_map))}; it needs {QUERY_TOOL} and {SCHEMA_TOOL}."
            )
        if self.tool_map and not (self.url or self.command):
            raise UserError("system.sql.tool_map is for another server; set its command or url as well.")
        if self.folder is not None and not find_files(Path(self.folder)):
            raise UserError(
                f"system.sql.folder={self.folder} has no SQLite file; expected NAME.sqlite or NAME/NAME.sqlite in it."
            )
        missing = [name for name in self.folder_tables if name not in self.list_databases()]
        if self.folder is not None and missing:
            raise UserError(f"system.sql.folder_tables names {missing[0]}, which is not in system.sql.folder.")
        for name, database in self.list_databases().items():
            if not database.tables and (self.tool_map or not self.url):
                raise UserError(
                    f"system.sql.databases.{name} lists no tables; name those that may be read, or '*' for all."
                )
            if not self.command and not self.url and bool(database.path) == bool(database.url_env):
                raise UserError(f"system.sql.databases.{name} needs either a path (SQLite) or url_env (PostgreSQL).")

    def list_databases(self) -> dict[str, DatabaseSettings]:
        """Return all databases by name: those of the folder, and those that are named."""
        found = find_files(Path(self.folder)) if self.folder is not None else {}
        files = {
            name: DatabaseSettings(path=str(file), tables=self.folder_tables.get(name, ["*"]))
            for name, file in found.items()
        }
        return {**files, **self.databases}

    def list_secrets(self, environment: Mapping[str, str] = os.environ) -> Sequence[str]:
        """Return the values that no trace, log or record may show: addresses of databases, and passwords in them."""
        names = [database.url_env for database in self.databases.values() if database.url_env]
        addresses = [environment[name] for name in names if environment.get(name)]
        passwords = [find_password(address) for address in addresses]
        return [*addresses, *passwords, *(unquote(each) for each in passwords)]


def find_files(folder: Path) -> dict[str, Path]:
    """Return the SQLite files of a folder by name: those in it and, at any depth, those in a folder of their name."""
    files = [file for ending in ENDINGS for file in folder.rglob(f"*{ending}")]
    return {file.stem: file for file in sorted(files) if file.parent == folder or file.parent.name == file.stem}


def find_password(address: str) -> str:
    """Return the password in an address; empty if there is none."""
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""
