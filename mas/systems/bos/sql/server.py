"""MCP server over databases that may be read: the tools `mcp_db_query` and `mcp_db_schema`, and no others.

`mas.systems.bos.sql.session` starts it and speaks with it over standard input and output:

    python -m mas.systems.bos.sql.server '{"databases": {"shop": {"path": "shop.sqlite", "tables": ["orders"]}},
        "limits": {"max_rows": 50}}'

Each query is checked again here, whatever the client has checked.
"""

import json
import resource
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from mas.systems.bos.sql.databases import Database, QueryResult, open_database
from mas.systems.bos.sql.engine import DatabaseUnavailableError, TableSchema
from mas.systems.bos.sql.settings import DatabaseSettings, QueryLimits

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

QUERY_TOOL, SCHEMA_TOOL = "mcp_db_query", "mcp_db_schema"
MEMORY_BYTES = 4 * 2**30  # of the process: a huge value ends the server, not the machine


class SchemaResult(TypedDict):
    """Tables of a database that may be read."""

    dialect: str
    tables: list[TableSchema]


def build_server(databases: Mapping[str, Database]) -> "MCPServer[None]":
    """Return the server, not yet running."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server: MCPServer[None] = MCPServer("bos-sql", log_level="ERROR")

    def find(name: str) -> Database:
        if name not in databases:
            raise ToolError(f"There is no database {name!r}; the databases are: {', '.join(databases)}.")
        return databases[name]

    @server.tool(name=QUERY_TOOL, description="Run one SELECT statement on a database and return its rows.")
    def run_query(query: str, database: str) -> QueryResult:
        try:
            return find(database).query(query)
        except DatabaseUnavailableError as error:
            raise ToolError(f"Database {database!r} is not available: {error}.") from error

    @server.tool(name=SCHEMA_TOOL, description="Return columns, types and keys of the tables that may be read.")
    def read_schema(database: str, tables: list[str] | None = None) -> SchemaResult:
        found = find(database)
        return SchemaResult(dialect=found.guard.dialect, tables=found.schema(tables or ()))

    return server


def main(settings: str) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    given = json.loads(settings)
    limits = QueryLimits(**given["limits"])
    try:
        databases = {
            name: open_database(name, DatabaseSettings(**each), limits) for name, each in given["databases"].items()
        }
    except UserError as error:
        print_line(str(error), error=True)
        return 1
    build_server(databases).run("stdio")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
