from dataclasses import asdict
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.tracking import LocalTracking, NoTracking, ServerTracking, remove_passwords
from mas.runtime.errors import UserError

CONF = PROJECT_ROOT / "conf" / "tracking"
VARIABLES = ("URI", "USERNAME", "PASSWORD", "TOKEN")


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)


@pytest.mark.parametrize(
    ("name", "expected"), [("local", LocalTracking()), ("server", ServerTracking()), ("off", NoTracking())]
)
def test_config_files_hold_the_defaults(name: str, expected: object) -> None:
    assert instantiate(OmegaConf.load(CONF / f"{name}.yaml")) == expected


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ServerTracking(), ["tracking.uri=", "MLFLOW_TRACKING_URI"]),
        (ServerTracking(uri="mlflow.example.org"), ["tracking.uri", "https://"]),
        (ServerTracking(uri="http://host:port"), ["tracking.uri", "https://"]),
        (ServerTracking(uri="http://:5000"), ["name a host"]),
        (ServerTracking(uri="ftp://example.org"), ["http://"]),
        (ServerTracking(uri="postgresql://u:topsecret@host/db"), ["postgresql", "http://", "tracking=local"]),
        (ServerTracking(uri="postgresql+psycopg2://u:topsecret@host/db"), ["names a database"]),
        (ServerTracking(uri="sqlite:////tmp/mlflow.db"), ["tracking=local"]),
        (ServerTracking(uri="http://ann@host:5000"), ["tracking.uri", "MLFLOW_TRACKING_PASSWORD"]),
        (ServerTracking(uri="http://topsecret@host:5000"), ["tracking.uri", "MLFLOW_TRACKING_PASSWORD"]),
        (ServerTracking(uri="http://ann:topsecret/1@host"), ["tracking.uri"]),
        (ServerTracking(uri="http://ann:12/topsecret@host"), ["tracking.uri", "%2F"]),
        (ServerTracking(uri="http://host", experiment=" "), ["tracking.experiment"]),
        (LocalTracking(wait_seconds=-1), ["tracking.wait_seconds=-1"]),
    ],
)
def test_each_mistake_is_one_sentence(settings: LocalTracking | ServerTracking, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        settings.check()
    sentence = str(caught.value)
    assert all(word in sentence for word in words), sentence
    assert "topsecret" not in sentence


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000/")
    settings = ServerTracking()
    settings.check()
    assert settings.address() == settings.shown_uri == "http://127.0.0.1:5000"
    assert settings.artifact_location() is None
    assert ServerTracking(uri="https://other").address() == "https://other"


def test_a_user_from_the_environment_needs_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServerTracking(uri="http://host", username_env="TEAM_USER", password_env="TEAM_PASSWORD")
    settings.check()
    monkeypatch.setenv("TEAM_USER", "ann")
    with pytest.raises(UserError, match="TEAM_PASSWORD"):
        settings.check()
    monkeypatch.setenv("TEAM_PASSWORD", "correct horse")
    settings.check()
    environment = settings.environment()
    assert environment["MLFLOW_TRACKING_USERNAME"] == "ann"
    assert environment["MLFLOW_TRACKING_PASSWORD"] == "correct horse"
    assert environment["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert int(environment["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]) <= 3


def test_a_password_in_the_address_is_a_secret_and_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token-0123456789")
    settings = ServerTracking(uri="https://ann:pass%40word1@mlflow.example.org:8443/team")
    settings.check()
    assert settings.secrets() == ["pass%40word1", "pass@word1", "token-0123456789"]
    assert settings.shown_uri == "https://mlflow.example.org:8443/team"
    assert settings.environment()["MLFLOW_TRACKING_PASSWORD"] == "pass@word1"
    assert settings.environment()["MLFLOW_TRACKING_URI"] == settings.shown_uri


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("tracking.uri=https://ann:s3cret@host/x", "tracking.uri=https://ann@host/x"),
        ("uri: HTTP://ann:pa@ss@host:80\nn: 1\n", "uri: HTTP://ann@host:80\nn: 1\n"),
        ("http://ann:pa/ss@host", "http://ann@host"),
        ("http://ann:1pa#s/s@host/x", "http://ann@host/x"),
        ("http://ann:***@host", "http://ann@host"),
        ("http://:secret@host", "http://host"),
        ("http://dapi0123456789abcdef0123@host", "http://host"),
        ("u=http://ann:a@h,http://bob:b@h/x", "u=http://ann@h,http://bob@h/x"),
        ("http://ann@host", "http://ann@host"),
        ("model.base_url=http://host:80/a@b:c", "model.base_url=http://host:80/a@b:c"),
        ("http://[::1]:80/a@b and ann:b@c", "http://[::1]:80/a@b and ann:b@c"),
    ],
)
def test_an_address_is_kept_without_what_is_secret_in_it(address: str, kept: str) -> None:
    assert remove_passwords(address) == kept
    assert remove_passwords(kept) == kept


def test_a_local_store_is_absolute_wherever_the_command_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert LocalTracking().address() == f"sqlite:///{OUTPUTS}/mlflow.db"
    assert LocalTracking(folder="sub").path() == PROJECT_ROOT / "sub"
    assert LocalTracking(folder=str(tmp_path)).artifact_location() == (tmp_path / "mlflow-artifacts").as_uri()
    assert LocalTracking().secrets() == NoTracking().secrets() == ()


@pytest.mark.parametrize(("seconds", "is_taken"), [(0, True), (0.5, True), (-0.1, False), (float("inf"), False)])
def test_the_waiting_time_is_0_or_more_and_ends(seconds: float, is_taken: bool) -> None:
    settings = LocalTracking(wait_seconds=seconds)
    if is_taken:
        settings.check()
        return
    with pytest.raises(UserError) as refused:
        settings.check()
    assert str(refused.value) == f"tracking.wait_seconds={seconds} is not possible; give 0 or more seconds."


COMMON = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}


def test_options_of_tracking_that_are_not_given_have_these_values() -> None:
    common = {"experiment": "mas-harness", "wait_seconds": 120.0}
    assert asdict(LocalTracking()) == {**common, "folder": None}
    assert asdict(ServerTracking()) == {
        **common,
        "uri": None,
        **{f"{name.lower()}_env": f"MLFLOW_TRACKING_{name}" for name in ("USERNAME", "PASSWORD", "TOKEN")},
    }


def test_mlflow_gets_the_address_and_only_the_credentials_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = LocalTracking(folder=str(tmp_path))
    assert local.environment() == {**COMMON, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    assert local.shown_uri == local.address()
    assert LocalTracking().artifact_location() == (OUTPUTS / "mlflow-artifacts").as_uri()
    settings = ServerTracking(uri=" https://host/team// ", token_env="TEAM_TOKEN")
    settings.check()
    assert settings.environment() == {**COMMON, "MLFLOW_TRACKING_URI": "https://host/team"}
    monkeypatch.setenv("TEAM_TOKEN", "of the team")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "of another")
    assert settings.environment() == {
        **COMMON,
        "MLFLOW_TRACKING_URI": "https://host/team",
        "MLFLOW_TRACKING_TOKEN": "of the team",
    }


def test_what_the_address_says_of_user_and_password_comes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "bob")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "password of bob")
    found = ServerTracking(uri="https://a%40nn:of%2Fann@host").environment()
    assert (found["MLFLOW_TRACKING_USERNAME"], found["MLFLOW_TRACKING_PASSWORD"]) == ("a@nn", "of/ann")
    half = ServerTracking(uri="https://ann@host")
    half.check()
    found = half.environment()
    assert (found["MLFLOW_TRACKING_USERNAME"], found["MLFLOW_TRACKING_PASSWORD"]) == ("ann", "password of bob")
    found = ServerTracking(uri="https://:mine@host").environment()
    assert (found["MLFLOW_TRACKING_USERNAME"], found["MLFLOW_TRACKING_PASSWORD"]) == ("bob", "mine")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("host", " is not the address of a server; one looks like https://mlflow.example.org."),
        ("host:5000", " is not the address of a server; one looks like https://mlflow.example.org."),
        ("://host", " is not the address of a server; one looks like https://mlflow.example.org."),
        (
            "mysql+pymysql://host/db",
            " names a database (mysql+pymysql), which has no place for a run's files; give the http:// address of the "
            "MLflow server in front of it, or take tracking=local.",
        ),
        ("ftp://host", " must begin with http:// or https:// and name a host."),
        ("https://", " must begin with http:// or https:// and name a host."),
        *(
            (f"https://host{sign}a@b", " has an @ behind a /, ? or #; write these as %2F, %3F, %23 in a password.")
            for sign in "/?#"
        ),
    ],
)
def test_the_option_or_variable_that_has_a_wrong_address_is_named(
    address: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in ("tracking.uri", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address if source == "MLFLOW_TRACKING_URI" else "https://unused")
        with pytest.raises(UserError) as refused:
            ServerTracking(uri=address if source == "tracking.uri" else None).check()
        assert str(refused.value) == source + said


def test_no_address_and_a_user_without_a_password_are_told_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError) as refused:
        ServerTracking(uri="  ").check()
    assert str(refused.value) == (
        "tracking=server needs the server's address; give tracking.uri=https://…, or set MLFLOW_TRACKING_URI."
    )
    assert (ServerTracking().address(), ServerTracking().secrets()) == ("", [])
    monkeypatch.setenv("TEAM_USER", "ann")
    for uri, source in (("https://host", "TEAM_USER"), ("https://bob@host", "tracking.uri")):
        with pytest.raises(UserError) as refused:
            ServerTracking(uri=uri, username_env="TEAM_USER", token_env="TEAM_TOKEN").check()
        assert str(refused.value) == (
            f"the MLflow user that {source} names has no password; set the environment variable "
            "MLFLOW_TRACKING_PASSWORD, or TEAM_TOKEN for a token."
        )
    with pytest.raises(UserError) as refused:
        LocalTracking(experiment="\t").check()
    assert str(refused.value) == "tracking.experiment is empty; name one with tracking.experiment=…"


@pytest.mark.parametrize(
    ("user", "password", "secrets"),
    [
        ("ann", "1234567", []),
        ("ann", "12345678", ["12345678"]),
        ("u" * 19, "", []),
        ("u" * 20, "", ["u" * 20]),
        ("u" * 19 + "_-", "", ["u" * 19 + "_-"]),
        ("u" * 10 + "." + "u" * 10, "", []),
    ],
)
def test_a_secret_has_8_characters_and_a_user_s_name_of_20_is_a_token(
    user: str, password: str, secrets: list[str]
) -> None:
    address = f"https://{user}{':' if password else ''}{password}@host"
    assert ServerTracking(uri=address).secrets() == secrets
    assert remove_passwords(address) == ("https://host" if user in secrets else f"https://{user}@host")
