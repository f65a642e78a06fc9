"""Run folders as an attacker hands them over: made by this program, then edited.

folder = stored_run(tmp_path / "theirs", [answered("q1", "17")])
edit_info(folder, command=["system.target=evil:answer"])      # and it is not in the list of the runs made here
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from eval.runs.record import write_meta
from mas.runtime.security.private_file import find_state_folder


def edit_info(folder: Path, **changes: object) -> None:
    """Change what `run.db` says of the run, and forget that it was made here."""
    with edited(folder) as database:
        ((text,),) = database.execute("SELECT value FROM meta WHERE key = 'info'").fetchall()
        new = json.dumps({**json.loads(text), **changes})
        write_meta(database, "info", new)
    forget_run(folder)


def forget_run(folder: Path) -> None:
    """Take a run off the list of the runs made here, as if its folder had been copied from another machine."""
    file, place = find_state_folder() / "runs.jsonl", str(folder.resolve())
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(line for line in lines if json.loads(line)["folder"] != place))


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
