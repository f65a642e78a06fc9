"""Databases of the SQL agent's tests: a file of SQLite, and a PostgreSQL with a restricted role."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from tests.mas.systems.bos.sql.hostile_queries import SCHEMA
from tests.servers.postgres import USER, RunningPostgres, running_postgres

NAME, ROLE, URL_ENV = "bos", "bos_reader", "BOS_TEST_POSTGRES_URL"
# Functions as a database of somebody's may have them: the first of them reads with the rights of its owner.
FUNCTIONS = """
    CREATE FUNCTION reveal(integer) RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT password FROM secret_users';
    CREATE FUNCTION reveal_row(customers) RETURNS text LANGUAGE sql SECURITY DEFINER
        AS 'SELECT password FROM secret_users';
    CREATE SEQUENCE evil;
"""
RIGHTS = f"""
    CREATE ROLE {ROLE} LOGIN PASSWORD 'reader-pass-77';
    REVOKE ALL ON SCHEMA public FROM PUBLIC;
    GRANT USAGE ON SCHEMA public TO {ROLE};
    GRANT SELECT ON customers, orders, products TO {ROLE};
"""


def make_sqlite(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
    return path


@contextmanager
def make_postgres(functions: str = "") -> Iterator[tuple[RunningPostgres, Mapping[str, str]]]:
    """Start a PostgreSQL with the tables; yield it and the addresses of its restricted role and its owner."""
    with running_postgres() as server:
        server.new_database(NAME)
        server.query(NAME, SCHEMA + functions + RIGHTS)
        at = f"127.0.0.1:{server.port}/{NAME}"
        yield server, {"reader": f"postgresql://{ROLE}:reader-pass-77@{at}", "owner": f"postgresql://{USER}@{at}"}
