"""Settings of the SQL agent: the `sql` part of `conf/system/bos.yaml`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mas.runtime.errors import UserError

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
        if not 0 <= self.max_retries <= 10:
            raise UserError(f"system.sql.max_retries={self.max_retries} is out of range; expected 0 to 10.")
        for name, value in vars(self.limits).items():
            if value <= 0:
                raise UserError(f"system.sql.limits.{name}={value} must be more than 0.")
        if self.folder is not None and not find_files(Path(self.folder)):
            raise UserError(
                f"system.sql.folder={self.folder} has no SQLite file; expected NAME.sqlite or NAME/NAME.sqlite in it."
            )
        missing = [name for name in self.folder_tables if name not in self.list_databases()]
        if self.folder is not None and missing:
            raise UserError(f"system.sql.folder_tables names {missing[0]}, which is not in system.sql.folder.")
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
