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
DATABASES = ("postgresql", "mysql", "mssql", "sqlite")

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
    wait_seconds: float = 120.0  # at the end of a run, for what MLflow does not have yet

    def check(self) -> None:
        _check_common(self.experiment, self.wait_seconds)

    def secrets(self) -> Sequence[str]:
        return ()

    def path(self) -> Path:
        return PROJECT_ROOT / self.folder if self.folder else OUTPUTS

    def address(self) -> str:
        return f"sqlite:///{self.path() / 'mlflow.db'}"

    @property
    def shown_uri(self) -> str:
        """Address for messages."""
        return self.address()

    def artifact_location(self) -> str:
        """Return an absolute address: MLflow's own default is the folder in which the command was started."""
        return (self.path() / "mlflow-artifacts").as_uri()

    def environment(self) -> Mapping[str, str]:
        return {**_ENVIRONMENT, URI_VARIABLE: self.address()}


@dataclass
class ServerTracking:
    """An MLflow server. User, password and token stay in the environment; the fields name the variables."""

    uri: str | None = None  # http(s)://…; null: the environment variable MLFLOW_TRACKING_URI
    experiment: str = "mas-harness"
    username_env: str = "MLFLOW_TRACKING_USERNAME"
    password_env: str = "MLFLOW_TRACKING_PASSWORD"
    token_env: str = "MLFLOW_TRACKING_TOKEN"
    wait_seconds: float = 120.0  # at the end of a run, for what the server does not have yet

    def check(self) -> None:
        """
        Raises:
            UserError: there is no address, it is invalid, or a user has no password.
        """
        _check_common(self.experiment, self.wait_seconds)
        if not (given := self._given()):
            raise UserError(
                f"tracking=server needs the server's address; give tracking.uri=https://…, or set {URI_VARIABLE}."
            )
        parts = _split(given)
        if parts is None:
            raise UserError(
                f"{self._source()} is not the address of a server; one looks like https://mlflow.example.org."
            )
        if parts.scheme.partition("+")[0] in DATABASES:
            raise UserError(
                f"{self._source()} names a database ({parts.scheme}), which has no place for a run's files; give the "
                "http:// address of the MLflow server in front of it, or take tracking=local."
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"{self._source()} must begin with http:// or https:// and name a host.")
        if "@" in parts.path + parts.query + parts.fragment:
            raise UserError(
                f"{self._source()} has an @ behind a /, ? or #; write these as %2F, %3F, %23 in a password."
            )
        if self._user() and not self._password():
            source = self._source() if parts.username else self.username_env  # never as typed: it may be a token
            raise UserError(
                f"the MLflow user that {source} names has no password; set the environment variable "
                f"{self.password_env}, or {self.token_env} for a token."
            )

    def secrets(self) -> Sequence[str]:
        """Return password and token, the password as written in the address, and a user's name that is a token."""
        parts = _split(self._given())
        user = (parts.username if parts else None) or ""
        written = (parts.password if parts else None) or ""
        found = {self._password(), self._token(), written, user if _TOKEN.fullmatch(user) else ""}
        return sorted(secret for secret in found if len(secret) >= MIN_SECRET_CHARS)

    def address(self) -> str:
        """Return the address without user and password: MLflow repeats it in error messages."""
        parts = _split(self._given())
        if parts is None:
            return ""
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")

    @property
    def shown_uri(self) -> str:
        """Address for messages."""
        return self.address()

    def artifact_location(self) -> None:
        """Return None: the server has its own."""

    def environment(self) -> Mapping[str, str]:
        credentials = {
            "MLFLOW_TRACKING_USERNAME": self._user(),
            "MLFLOW_TRACKING_PASSWORD": self._password(),
            "MLFLOW_TRACKING_TOKEN": self._token(),
        }
        given = {variable: value for variable, value in credentials.items() if value}
        return {**_ENVIRONMENT, URI_VARIABLE: self.address(), **given}

    def _given(self) -> str:
        return (self.uri or os.environ.get(URI_VARIABLE) or "").strip()

    def _source(self) -> str:
        """Return the name of the option or variable with the address; as typed it may hold a password."""
        return "tracking.uri" if self.uri else URI_VARIABLE

    def _user(self) -> str:
        parts = _split(self._given())
        return unquote((parts.username if parts else None) or "") or os.environ.get(self.username_env) or ""

    def _password(self) -> str:
        parts = _split(self._given())
        return unquote((parts.password if parts else None) or "") or os.environ.get(self.password_env) or ""

    def _token(self) -> str:
        return os.environ.get(self.token_env) or ""


@dataclass
class NoTracking:
    """MLflow is not used."""

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


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises for an invalid port
    except ValueError:
        return None
    return parts if parts.scheme and "://" in address else None


def _check_common(experiment: str, wait_seconds: float) -> None:
    if not experiment.strip():
        raise UserError("tracking.experiment is empty; name one with tracking.experiment=…")
    if not 0 <= wait_seconds < float("inf"):
        raise UserError(f"tracking.wait_seconds={wait_seconds} is not possible; give 0 or more seconds.")
