"""Run folders as an attacker hands them over: made by this program, then edited.

folder = stored_run(tmp_path / "theirs", [answered("q1", "17")])
edit_info(folder, command=["system.target=evil:answer"])      # the signature no longer fits
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from eval.runs.record import write_meta


def edit_info(folder: Path, **changes: object) -> None:
    """Change what `run.db` says of the run."""
    with edited(folder) as database:
        ((text,),) = database.execute("SELECT value FROM meta WHERE key = 'info'").fetchall()
        new = json.dumps({**json.loads(text), **changes})
        write_meta(database, "info", new)


@contextmanager
def edited(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "run.db", isolation_level=None)) as database:
        yield database


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A server of the attacker: its address, and what it was sent."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Tests print nothing."""

        def do_GET(self) -> None:
            seen.append(f"{self.path}\n{self.headers}")
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()
