"""Settings of MLflow tracking, made from the files of `conf/tracking/`. MLflow itself is not imported here."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS

URI_VARIABLE = "MLFLOW_TRACKING_URI"
CREDENTIALS = USER_VARIABLE, PASSWORD_VARIABLE, TOKEN_VARIABLE = (
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
)
WAIT_SECONDS = 120.0  # at the end of a run, for what MLflow does not have yet
# MLflow reads these while it is imported and with every request.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else an import in MLflow waits for the network
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # with MLflow's own 7 a server that is down costs minutes a call
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",  # seconds
}


@dataclass
class LocalTracking:
    """An MLflow store in SQLite, with its artifacts in the same folder."""

    experiment: str = "mas-harness"
    folder: str | None = None  # of mlflow.db and mlflow-artifacts; None = outputs/; relative = to the project's root
    wait_seconds: float = WAIT_SECONDS  # no key of `conf/`

    def check(self) -> None:
        pass

    def secrets(self) -> Sequence[str]:
        return ()

    def path(self) -> Path:
        return PROJECT_ROOT / self.folder if self.folder else OUTPUTS

    def address(self) -> str:
        return f"sqlite:///{self.path() / 'mlflow.db'}"

    def artifact_location(self) -> str:
        return (self.path() / "mlflow-artifacts").as_uri()  # MLflow's default is the folder of the command's start

    def environment(self) -> Mapping[str, str]:
        return {**_ENVIRONMENT, URI_VARIABLE: self.address()}


@dataclass
class ServerTracking:
    """An MLflow server. User, password and token are in MLflow's own environment variables."""

    uri: str | None = None  # http(s)://…; null: the environment variable MLFLOW_TRACKING_URI
    experiment: str = "mas-harness"
    wait_seconds: float = WAIT_SECONDS  # no key of `conf/`

    def check(self) -> None:
        source = "tracking.uri" if self.uri else URI_VARIABLE  # as typed the address may hold a password
        if not (address := self.address()):
            raise UserError(
                f"tracking=server needs the server's address; give tracking.uri=https://…, or set {URI_VARIABLE}."
            )
        if "@" in address:
            raise UserError(
                f"{source} has a user, a password or a token, which MLflow would repeat in its messages; leave them "
                f"out, and set {USER_VARIABLE} and {PASSWORD_VARIABLE}, or {TOKEN_VARIABLE}."
            )
        if not re.match(r"https?://[\w[]", address):
            raise UserError(f"{source} is not the address of an MLflow server, such as https://mlflow.example.org.")

    def secrets(self) -> Sequence[str]:
        found = (os.environ.get(name, "") for name in (PASSWORD_VARIABLE, TOKEN_VARIABLE))
        return [secret for secret in found if len(secret) >= MIN_SECRET_CHARS]

    def address(self) -> str:
        return (self.uri or os.environ.get(URI_VARIABLE) or "").strip().rstrip("/")

    def artifact_location(self) -> None:
        """Return None: the server has its own."""

    def environment(self) -> Mapping[str, str]:
        credentials = {name: os.environ[name] for name in CREDENTIALS if os.environ.get(name)}
        return {**_ENVIRONMENT, URI_VARIABLE: self.address(), **credentials}


Tracking = LocalTracking | ServerTracking
