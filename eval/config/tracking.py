"""Settings of MLflow tracking, made from the files of `conf/tracking/`. MLflow itself is not imported here.

tracking = ServerTracking(uri="https://ann:secret@mlflow.example.org")
tracking.address()         # "https://mlflow.example.org": what MLflow's client is given, and all that is ever shown
tracking.environment()     # {"MLFLOW_TRACKING_USERNAME": "ann", …}: to be set before MLflow is imported
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

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
_NO_ADDRESS = SplitResult("", "", "", "", "")

_ADDRESS = re.compile(r"(https?://)(?:([^\s/?#]*)@|([^\s/?#@:\[]*:(?!\d*[/?#])\S*)@)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,}")  # given as a user's name

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
        _check_experiment(self.experiment)

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
    """An MLflow server. User, password and token are in the address, or in MLflow's own environment variables."""

    uri: str | None = None  # http(s)://…; null: the environment variable MLFLOW_TRACKING_URI
    experiment: str = "mas-harness"
    wait_seconds: float = WAIT_SECONDS  # no key of `conf/`

    def check(self) -> None:
        _check_experiment(self.experiment)
        source = "tracking.uri" if self.uri else URI_VARIABLE  # as typed the address may hold a password
        if not self._given():
            raise UserError(
                f"tracking=server needs the server's address; give tracking.uri=https://…, or set {URI_VARIABLE}."
            )
        parts = self._split()
        # An @ behind the host is one of a password with a /, ? or # in it.
        is_cut = "@" in parts.path + parts.query + parts.fragment
        if parts.scheme not in ("http", "https") or not parts.hostname or is_cut:
            raise UserError(
                f"{source} is not the address of an MLflow server, such as https://mlflow.example.org; in a password "
                "write /, ? and # as %2F, %3F and %23."
            )

    def secrets(self) -> Sequence[str]:
        """Return password and token, the password as written in the address, and a user's name that is a token."""
        parts, credentials = self._split(), self._credentials()
        user = parts.username or ""
        found = {credentials[PASSWORD_VARIABLE], credentials[TOKEN_VARIABLE], parts.password or ""}
        found |= {user} if _TOKEN.fullmatch(user) else set()
        return sorted(secret for secret in found if len(secret) >= MIN_SECRET_CHARS)

    def address(self) -> str:
        """Return the address without user and password: MLflow repeats it in error messages."""
        parts = self._split()
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")

    def artifact_location(self) -> None:
        """Return None: the server has its own."""

    def environment(self) -> Mapping[str, str]:
        credentials = {variable: value for variable, value in self._credentials().items() if value}
        return {**_ENVIRONMENT, URI_VARIABLE: self.address(), **credentials}

    def _given(self) -> str:
        return (self.uri or os.environ.get(URI_VARIABLE) or "").strip()

    def _split(self) -> SplitResult:
        try:
            parts = urlsplit(self._given())
            _ = parts.port  # raises for an invalid port
        except ValueError:
            return _NO_ADDRESS
        return parts if parts.scheme and "://" in self._given() else _NO_ADDRESS

    def _credentials(self) -> dict[str, str]:
        """Return user, password and token by MLflow's variables for them; what is in the address takes precedence."""
        parts = self._split()
        written = {USER_VARIABLE: unquote(parts.username or ""), PASSWORD_VARIABLE: unquote(parts.password or "")}
        return {name: written.get(name) or os.environ.get(name, "") for name in CREDENTIALS}


@dataclass
class NoTracking:
    def check(self) -> None:
        pass

    def secrets(self) -> Sequence[str]:
        return ()


Tracking = LocalTracking | ServerTracking


def remove_passwords(text: str) -> str:
    """Remove passwords and tokens from http addresses in a text; users' names stay.

    Nothing replaces them: whoever reads the address again takes the password from the environment.
    """
    return _ADDRESS.sub(_without_password, text)


def _without_password(address: re.Match[str]) -> str:
    user = (address[2] if address[2] is not None else address[3]).partition(":")[0]
    return address[1] + (f"{user}@" if user and not _TOKEN.fullmatch(user) else "")


def _check_experiment(experiment: str) -> None:
    if not experiment.strip():
        raise UserError("tracking.experiment is empty; name one with tracking.experiment=…")
