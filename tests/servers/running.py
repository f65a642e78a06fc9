"""The model server of `llm.py` in a process of its own, for tests.

with running_llm("--reject", "expert") as server:
    dspy.LM("openai/perfect", api_base=server.base_url, api_key="none")
    server.requests()[0]["messages"]
"""

import json
import select
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_SCRIPT = Path(__file__).with_name("llm.py")
START_SECONDS = 30.0


@dataclass(frozen=True)
class RunningServer:
    base_url: str  # ends in /v1

    @property
    def port(self) -> int:
        return urlsplit(self.base_url).port or 0

    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the completions asked for since the last reset, oldest first."""
        bodies: list[dict[str, Any]] = self._call("GET", "/requests")["requests"]
        return bodies

    def stats(self) -> dict[str, Any]:
        return self._call("GET", "/stats")

    def reset(self) -> None:
        self._call("POST", "/reset")

    def _call(self, method: str, path: str) -> dict[str, Any]:
        url = self.base_url.removesuffix("/v1") + path
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback, whatever the proxy settings
        with opener.open(urllib.request.Request(url, method=method), timeout=START_SECONDS) as response:
            answer: dict[str, Any] = json.load(response)
        return answer


@contextmanager
def running_llm(*arguments: str, script: Path = _SCRIPT) -> Iterator[RunningServer]:
    """Start the server on a free loopback port, wait until it answers, stop it at the end.

    `arguments` are those of the script's command line, without `--port`.
    """
    command = [sys.executable, str(script), "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _answering(process)
        finally:
            process.kill()
            process.communicate()


def _answering(process: subprocess.Popen[str]) -> RunningServer:
    """The server prints its base URL once it listens."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    base_url = process.stdout.readline().strip() if ready else ""
    if not base_url:
        process.kill()
        raise RuntimeError(f"the model server did not start: {process.communicate()[1].strip()}")
    server = RunningServer(base_url)
    server.stats()
    return server
