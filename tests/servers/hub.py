"""A loopback Hugging Face with one dataset repository, under whatever name it is asked for.

with serving(tmp_path, "0" * 40) as (endpoint, requested):      # HF_ENDPOINT for a process of its own
    ...
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


class LoopbackHub(BaseHTTPRequestHandler):
    """As much of Hugging Face's HTTP interface as fetching one dataset takes."""

    root: Path
    revision: str
    gated: bool
    requested: list[str]

    def log_message(self, *args: object) -> None:
        """Tests print nothing."""

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0])
        self.requested.append(path)
        if self.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
        elif "/resolve/" in path:
            self._send_file(self.root / path.split("/resolve/")[1].split("/", 1)[1])
        elif f"/tree/{self.revision}" in path:
            inside = path.split(self.revision)[1].strip("/")
            self._send_json([entry for entry in self._entries() if entry["path"].startswith(inside)])
        elif "/revision/" in path:
            siblings = [{"rfilename": entry["path"]} for entry in self._entries()]
            self._send_json({"id": "owner/name", "sha": self.revision, "siblings": siblings})
        else:
            self._send(404, b"{}")

    do_HEAD = do_GET

    def _entries(self) -> list[dict[str, Any]]:
        files = sorted(file for file in self.root.rglob("*") if file.is_file())
        return [
            {
                "type": "file",
                "path": file.relative_to(self.root).as_posix(),
                "size": file.stat().st_size,
                "oid": "0" * 40,
            }
            for file in files
        ]

    def _send_file(self, file: Path) -> None:
        if not file.is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        content = file.read_bytes()
        etag = hashlib.sha1(content).hexdigest()
        return self._send(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": self.revision})

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def serving(root: Path, revision: str, gated: bool = False) -> Iterator[tuple[str, list[str]]]:
    """The address of a hub with the files of `root` in one commit, and the paths that were asked for."""
    requested: list[str] = []
    handler = type("Hub", (LoopbackHub,), {"root": root, "revision": revision, "gated": gated, "requested": requested})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requested
        finally:
            server.shutdown()
            thread.join()
