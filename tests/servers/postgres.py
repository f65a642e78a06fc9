"""A PostgreSQL of a test's own: a new cluster in a temporary folder, from Debian's package `postgresql`.

@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_…():
    with running_postgres() as postgres:
        uri = postgres.new_database("mlflow")        # "postgresql+psycopg2://mlflow@127.0.0.1:41873/mlflow"
        postgres.dump("mlflow")                      # all of it as SQL

Nothing is synced to the disk: what is tested is never PostgreSQL's own durability.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_SECONDS, wait_for

USER = "mlflow"
_ACCOUNTS = ("postgres", "nobody")  # PostgreSQL refuses to be root
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")


def binaries() -> Path | None:
    """The folder of the newest version that is installed; Debian puts it on nobody's PATH."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((each.parent for each in found), key=lambda folder: int(folder.parent.name), default=None)


def why_not() -> str:
    """In one line, why there can be no PostgreSQL here; empty if there can."""
    if binaries() is None:
        return "postgresql is missing: apt-get install postgresql"
    if find_spec("psycopg2") is None:
        return "psycopg2 is missing: pip install psycopg2-binary"
    return ""


@dataclass(frozen=True)
class RunningPostgres:
    folder: Path
    port: int
    account: str | None  # that it runs under; None: the test's own

    def new_database(self, name: str) -> str:
        """Make an empty database; its address for SQLAlchemy."""
        self._run("createdb", name)
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{self.port}/{name}"

    def dump(self, name: str) -> str:
        return self._run("pg_dump", "--inserts", name)

    def query(self, name: str, sql: str) -> list[list[str]]:
        """Rows of a query, their values as text."""
        found = self._run("psql", "--no-psqlrc", "--tuples-only", "--no-align", "--command", sql, name)
        return [line.split("|") for line in found.splitlines()]

    def _run(self, program: str, *arguments: str) -> str:
        place = ("--host", "127.0.0.1", "--port", str(self.port), "--username", USER)
        return _run(program, *place, *arguments, folder=self.folder, account=self.account)


@contextmanager
def running_postgres() -> Iterator[RunningPostgres]:
    """Start it on a free loopback port; stop it and remove its folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # other accounts may not enter pytest's `tmp_path`
    account = _account()
    if account:
        shutil.chown(folder, account)
    try:
        data = str(folder / "data")
        options = ("--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
        _run("initdb", *options, "--pgdata", data, folder=folder, account=account)
        server = RunningPostgres(folder, free_port(), account)
        with _process(server, data) as process:
            _wait(server, process)
            yield server
    finally:
        shutil.rmtree(folder)


def free_port() -> int:
    """Return a port for a server that is started later, and again: none that the kernel gives to others meanwhile."""
    while True:
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", 20_000 + secrets.randbelow(12_000)))
            return int(found.getsockname()[1])


@contextmanager
def _process(server: RunningPostgres, data: str) -> Iterator[subprocess.Popen[bytes]]:
    settings = [part for setting in _FAST for part in ("-c", setting)]
    place = ("-D", data, "-h", "127.0.0.1", "-p", str(server.port), "-k", str(server.folder))
    with (server.folder / "log").open("wb") as log:
        command = [_program("postgres"), *place, *settings]
        process = subprocess.Popen(
            command, stdout=log, stderr=log, **_as(server.account, server.folder), process_group=0
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)  # "fast": open connections are ended
        process.wait(PATIENCE_SECONDS)


def _wait(server: RunningPostgres, process: subprocess.Popen[bytes]) -> None:
    ready = [_program("pg_isready"), "--quiet", "--host", "127.0.0.1", "--port", str(server.port)]
    wait_for(lambda: process.poll() is not None or subprocess.run(ready, check=False).returncode == 0)
    if process.poll() is not None:
        raise RuntimeError(f"PostgreSQL did not start: {(server.folder / 'log').read_text()[-500:]}")


def _account() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _ACCOUNTS if name in known)


def _as(account: str | None, folder: Path) -> dict[str, Any]:
    """That account, and a current folder that it may enter."""
    return {"cwd": folder, **({"user": account, "extra_groups": []} if account else {})}


def _program(name: str) -> str:
    folder = binaries()
    assert folder is not None, why_not()
    return str(folder / name)


def _run(program: str, *arguments: str, folder: Path, account: str | None) -> str:
    command = [_program(program), *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, **_as(account, folder))
    if finished.returncode:
        raise RuntimeError(f"{program}: {finished.stderr.strip()}")
    return finished.stdout
