"""MCP server over databases that may be read: the tools `mcp_db_query` and `mcp_db_schema`, and no others.

    python -m mas.systems.bos.sql.server --databases '{"shop": {"path": "shop.sqlite", "tables": ["orders"]}}'
    SHOP_URL=postgresql://reader:…@host/shop python -m mas.systems.bos.sql.server --http-port 3310 \\
        --databases '{"shop": {"url_env": "SHOP_URL", "tables": ["orders"]}}' --limits '{"max_rows": 50}'

Without `--http-port` it speaks over standard input and output. Over HTTP it listens at http://127.0.0.1:<port>/mcp, for
the programs of this machine only. Each query is checked again here, whatever the client has checked.
"""

import argparse
import json
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from mas.systems.bos.sql.databases import Database, QueryResult, fail, open_database
from mas.systems.bos.sql.engine import DatabaseUnavailableError, TableSchema
from mas.systems.bos.sql.settings import QUERY_TOOL, SCHEMA_TOOL, DatabaseSettings, QueryLimits

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

MEMORY_BYTES = 4 * 2**30  # of the process: a huge value ends the server, not the machine

_Settings = TypeVar("_Settings", DatabaseSettings, QueryLimits)


class SchemaResult(TypedDict):
    """Tables of a database that may be read."""

    success: bool
    dialect: str
    tables: list[TableSchema]
    error: str | None


def build_server(databases: Mapping[str, Database]) -> "MCPServer[None]":
    """Return the server, not yet running."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server: MCPServer[None] = MCPServer("bos-sql", log_level="ERROR")
    known = ", ".join(databases)

    @server.tool(name=QUERY_TOOL, description="Run one SELECT statement on a database and return its rows.")
    def run_query(query: str, database: str) -> QueryResult:
        if (found := databases.get(database)) is None:
            return fail(f"There is no database {database!r}; the databases are: {known}.")
        try:
            return found.query(query)
        except DatabaseUnavailableError as error:
            raise ToolError(f"Database {database!r} is not available: {error}.") from error

    @server.tool(name=SCHEMA_TOOL, description="Return columns, types and keys of the tables that may be read.")
    def read_schema(database: str, tables: list[str] | None = None) -> SchemaResult:
        if (found := databases.get(database)) is None:
            error = f"There is no database {database!r}; the databases are: {known}."
            return SchemaResult(success=False, dialect="", tables=[], error=error)
        return SchemaResult(success=True, dialect=found.guard.dialect, tables=found.schema(tables or ()), error=None)

    return server


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m mas.systems.bos.sql.server", description="MCP server over databases."
    )
    parser.add_argument("--databases", required=True, help="JSON: name → {path | url_env, tables, check_role}")
    parser.add_argument("--limits", default="{}", help="JSON: max_rows, max_bytes, seconds, max_chars")
    parser.add_argument("--http-port", type=int, help="listen on this port of 127.0.0.1 instead of standard input")
    given = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        limits = _make(QueryLimits, "--limits", json.loads(given.limits))
        databases = {
            name: open_database(name, _make(DatabaseSettings, f"database {name!r}", settings), limits)
            for name, settings in json.loads(given.databases).items()
        }
    except json.JSONDecodeError as error:
        print_line(f"--databases and --limits must be JSON objects: {error}.", error=True)
        return 1
    except UserError as error:
        print_line(str(error), error=True)
        return 1
    server = build_server(databases)
    if given.http_port:
        server.run("streamable-http", host="127.0.0.1", port=given.http_port)
    else:
        server.run("stdio")
    return 0


def _make(kind: type[_Settings], where: str, values: Mapping[str, object]) -> _Settings:
    known = [field.name for field in fields(kind)]
    if unknown := set(values) - set(known):
        raise UserError(f"{where} has the unknown keys {', '.join(sorted(unknown))}; known are {', '.join(known)}.")
    return kind(**values)  # type: ignore[arg-type]  # checked where they are used


if __name__ == "__main__":
    sys.exit(main())
