"""Firebase's own emulator of accounts, behind a server that notes what it was asked; it looks like `FirebaseServer`.

    npm install --prefix /tmp/firebase firebase-tools node@22       # once; needs neither Java nor a Firebase project
    PATH=/tmp/firebase/node_modules/.bin:$PATH pytest -m firebase

With FIREBASE_AUTH_EMULATOR_HOST=127.0.0.1:9099 the emulator that listens there is asked, and keeps its other accounts.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from mas.systems.bos.api.tokens import EMULATOR
from tests.servers.firebase import API_KEY, EMAIL, PASSWORD, RENEW, SIGN_IN, FirebaseServer
from tests.servers.loopback import Answer, Asked

START_SECONDS = 120
_SERVICES = {SIGN_IN: "identitytoolkit.googleapis.com", RENEW: "securetoken.googleapis.com"}
_ACCOUNT = {"email": EMAIL, "password": PASSWORD, "returnSecureToken": True}


class EmulatedFirebase(FirebaseServer):
    """Passes requests on to the emulator, which listens at `host`, and notes the tokens that it issues."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self._host = host
        self._last_second = 0
        self._create_account()

    def revoke_refresh_tokens(self) -> None:
        self._create_account()

    def answer(self, asked: Asked) -> Answer:
        self._wait_for_another_second()
        service = _SERVICES.get(asked.path, _SERVICES[SIGN_IN])
        address = f"http://{self._host}/{service}{asked.path}"
        kind = {"Content-Type": asked.headers.get("content-type", "")}
        reply = httpx.request(asked.method, address, params=asked.query, content=asked.body, headers=kind)
        if reply.is_success:
            self.valid.add(str(reply.json().get("idToken") or reply.json().get("id_token")))
        return Answer(reply.content, reply.status_code, {"Content-Type": "application/json"})

    def _wait_for_another_second(self) -> None:
        """Wait: the emulator's tokens are not signed, so two of one second are equal."""
        while int(time.time()) == self._last_second:
            time.sleep(0.02)
        self._last_second = int(time.time())

    def _create_account(self) -> None:
        """Create the account anew: the tokens of the one before are refused."""
        with suppress(httpx.HTTPStatusError):
            before = self._call("accounts:signInWithPassword", _ACCOUNT)
            self._call("accounts:delete", {"idToken": before["idToken"]})
        self._call("accounts:signUp", _ACCOUNT)

    def _call(self, method: str, content: object) -> dict[str, object]:
        address = f"http://{self._host}/{_SERVICES[SIGN_IN]}/v1/{method}"
        reply = httpx.post(address, params={"key": API_KEY}, json=content).raise_for_status()
        found: dict[str, object] = json.loads(reply.content)
        return found


@contextmanager
def find_emulator(folder: Path) -> Iterator[str]:
    """Yield the address of an emulator: the one that listens, or one that is started in `folder`. Skips without one."""
    if listening := os.environ.get(EMULATOR):
        yield listening
        return
    program = shutil.which("firebase")
    if program is None:
        pytest.skip(f"firebase is missing: npm install firebase-tools, or set {EMULATOR}")
    ports = _find_free_ports(3)
    emulators = {
        name: {"host": "127.0.0.1", "port": port} for name, port in zip(("auth", "hub", "logging"), ports, strict=True)
    }
    (folder / "firebase.json").write_text(json.dumps({"emulators": {**emulators, "ui": {"enabled": False}}}))
    command = [program, "emulators:start", "--only", "auth", "--project", "demo-bos"]
    log = folder / "emulator.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, start_new_session=True)
    try:
        host = f"127.0.0.1:{ports[0]}"
        _wait_until_ready(host, process, log)
        yield host
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_ready(host: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        with suppress(httpx.HTTPError):
            if httpx.get(f"http://{host}/").is_success:
                return
        time.sleep(0.2)
    pytest.fail(f"the Firebase emulator did not start: {log.read_text('utf-8', 'replace')[-500:]}")


def _find_free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
