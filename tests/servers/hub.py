"""A loopback Hugging Face with one dataset repository, under whatever name it is asked for.

with serving(tmp_path, "0" * 40) as (endpoint, requested):      # HF_ENDPOINT for a process of its own
    ...
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.loopback import Answer, Asked, LoopbackServer, answer_json, running


class LoopbackHub(LoopbackServer):
    """As much of Hugging Face's HTTP interface as fetching one dataset takes."""

    def __init__(self, root: Path, revision: str, gated: bool) -> None:
        super().__init__()
        self.root, self.revision, self.gated = root, revision, gated
        self.requested: list[str] = []

    def answer(self, asked: Asked) -> Answer:
        path = asked.path
        self.requested.append(path)
        if self.gated:
            return Answer(b"{}", 403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
        if "/resolve/" in path:
            return self._file(self.root / path.split("/resolve/")[1].split("/", 1)[1])
        if f"/tree/{self.revision}" in path:
            inside = path.split(self.revision)[1].strip("/")
            return answer_json([entry for entry in self._entries() if entry["path"].startswith(inside)])
        if "/revision/" in path:
            siblings = [{"rfilename": entry["path"]} for entry in self._entries()]
            return answer_json({"id": "owner/name", "sha": self.revision, "siblings": siblings})
        return Answer(b"{}", 404)

    def _entries(self) -> list[dict[str, Any]]:
        files = {file.relative_to(self.root).as_posix(): file for file in self.root.rglob("*") if file.is_file()}
        return [
            {"type": "file", "path": path, "size": files[path].stat().st_size, "oid": "0" * 40}
            for path in sorted(files)
        ]

    def _file(self, file: Path) -> Answer:
        if not file.is_file():
            return Answer(b"", 404, {"X-Error-Code": "EntryNotFound"})
        content = file.read_bytes()
        etag = hashlib.sha1(content).hexdigest()
        return Answer(content, 200, {"ETag": f'"{etag}"', "X-Repo-Commit": self.revision})


@contextmanager
def serving(root: Path, revision: str, gated: bool = False) -> Iterator[tuple[str, list[str]]]:
    """The address of a hub with the files of `root` in one commit, and the paths that were asked for."""
    with running(LoopbackHub(root, revision, gated)) as server:
        yield server.base_url, server.requested


def run_with_hub(code: str, hub: str, home: Path, **environment: str) -> str:
    """Run Python in a process of its own, since huggingface_hub reads its settings while it is imported."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    settings = {"HF_ENDPOINT": hub, "HF_HOME": str(home), "HF_TOKEN": "hf_secret_token", **environment}
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, env=keep | settings, capture_output=True, text=True, check=False)
    assert "hf_secret" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout
