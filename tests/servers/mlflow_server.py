"""A real `mlflow server` with accounts, in processes of its own, that tests may kill and start again.

with running_mlflow(folder, "postgresql+psycopg2://…", "postgresql+psycopg2://…/accounts") as server:
    server.environment        # MLFLOW_TRACKING_URI, …_USERNAME, …_PASSWORD: for `tracking=server` in a subprocess
    server.kill()             # as kill -9 would
    server.start()            # on the same port and database, about 10 s

Its flags and environment are those of deploy/compose.yaml, but for one worker and the port.
"""

import base64
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.patience import PATIENCE_SECONDS, wait_for
from tests.servers.postgres import free_port

ADMIN, PASSWORD = "admin", "a-long-password-for-tests"
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it waits for the network before it listens
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # spares a process that nothing here asks for
    "MLFLOW_FLASK_SERVER_SECRET_KEY": "only-for-tests",
    "MLFLOW_AUTH_ADMIN_USERNAME": ADMIN,
    "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
}


@dataclass
class MlflowServer:
    folder: Path
    backend: str
    accounts: str | None
    more_environment: Mapping[str, str]
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """For a client."""
        account = {"MLFLOW_TRACKING_USERNAME": ADMIN, "MLFLOW_TRACKING_PASSWORD": PASSWORD} if self.accounts else {}
        return {"MLFLOW_TRACKING_URI": self.url, **account}

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text("utf-8", "replace")

    def start(self) -> None:
        """Returns once it answers."""
        command = [sys.executable, "-m", "mlflow", "server", *self._arguments()]
        environment = {**os.environ, **_ENVIRONMENT, **self._auth_config(), **self.more_environment}
        environment.pop("MLFLOW_TRACKING_URI", None)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=self.folder, start_new_session=True
            )
        process = self._process
        wait_for(lambda: process.poll() is not None or self._answers())
        if process.poll() is not None:
            raise RuntimeError(f"the MLflow server did not start: {self.log[-2000:]}")

    def kill(self) -> None:
        """Its workers with it; whatever was under way stays as it is."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # of a session of its own
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def _arguments(self) -> list[str]:
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        stores = ["--backend-store-uri", self.backend, "--artifacts-destination", str(self.folder / "artifacts")]
        return [*place, *stores, *(["--app-name", "basic-auth"] if self.accounts else [])]

    def _auth_config(self) -> dict[str, str]:
        if not self.accounts:
            return {}
        config = self.folder / "basic_auth.ini"
        config.write_text(
            "[mlflow]\ndefault_permission = READ\nauth_cache_ttl_seconds = 60\n"
            f"database_uri = {self.accounts}\n"
            "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
        )
        return {"MLFLOW_AUTH_CONFIG_PATH": str(config)}

    def _answers(self) -> bool:
        try:
            return self.status_of("/health", signed_in=False) == 200
        except OSError:
            return False

    def status_of(self, path: str, signed_in: bool = True) -> int:
        request = urllib.request.Request(self.url + path)
        if signed_in:
            request.add_header("Authorization", f"Basic {base64.b64encode(f'{ADMIN}:{PASSWORD}'.encode()).decode()}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback, whatever the proxy settings
        try:
            with opener.open(request, timeout=PATIENCE_SECONDS) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code


@contextmanager
def running_mlflow(
    folder: Path, backend: str, accounts: str | None = None, **more_environment: str
) -> Iterator[MlflowServer]:
    """Start it on a free loopback port, kill it at the end.

    Args:
        folder: for its log, its artifacts and its accounts.
        backend: the address of its database.
        accounts: the address of another database, for names and passwords; None: anybody is let in.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server = MlflowServer(folder, backend, accounts, more_environment)
    server.start()
    try:
        yield server
    finally:
        server.kill()
