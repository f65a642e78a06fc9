"""Settings of the API: limits, methods, addresses and secrets."""

from dataclasses import asdict

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.api.settings import ApiSettings, is_web_address

EVERY_METHOD = ["GET", "HEAD", "post", "PUT", "PATCH", "delete", "OPTIONS"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, None),
        ({"timeout_seconds": 0.1, "max_response_bytes": 1, "top_k": 1, "methods": EVERY_METHOD}, None),
        ({"base_url": "http://127.0.0.1:8000/api"}, None),
        ({"timeout_seconds": 0}, "system.api.timeout_seconds=0 must be more than 0."),
        ({"timeout_seconds": -1.5}, "system.api.timeout_seconds=-1.5 must be more than 0."),
        ({"max_response_bytes": 0}, "system.api.max_response_bytes=0 is too small; at least 1 is needed."),
        ({"top_k": 0}, "system.api.top_k=0 is too small; at least 1 is needed."),
        (
            {"methods": ["GET", "FETCH", "TRACE"]},
            "system.api.methods names FETCH, TRACE; choose among: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS.",
        ),
        *(
            (
                {name: "example.org"},
                f"system.api.{name}=example.org is no address; expected for example https://api.example.org.",
            )
            for name in ("base_url", "identity_url", "securetoken_url")
        ),
    ],
    ids=str,
)
def test_a_setting_is_checked_at_its_limit(settings: dict[str, object], message: str | None) -> None:
    given = ApiSettings(**settings)  # type: ignore[arg-type]
    if message is None:
        given.check()
        return
    with pytest.raises(UserError) as caught:
        given.check()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.example.org", True),
        ("http://127.0.0.1:8000/v1/", True),
        ("http://[::1]:1/", True),
        ("ftp://api.example.org", False),
        ("https://", False),
        ("https:///path", False),
        ("http://host:0/", False),
        ("http://host:99999/", False),
        ("http://me@host/", False),
        ("http://:secret@host/", False),
        ("http://host/?a=1", False),
        ("http://host/#a", False),
        ("http://[broken/", False),
        ("", False),
    ],
)
def test_an_address_is_a_web_server_and_nothing_else(url: str, expected: bool) -> None:
    assert is_web_address(url) is expected


def test_the_values_of_the_named_variables_are_secrets() -> None:
    settings = ApiSettings(token_env="MY_TOKEN")
    environment = {
        "MY_TOKEN": "t",
        "FIREBASE_WEB_API_KEY": "k",
        "FIREBASE_EMAIL": "",
        "FIREBASE_PASSWORD": "p",
        "BOS_API_TOKEN": "not used",
    }
    assert settings.list_secrets(environment) == ["t", "k", "p"]
    assert settings.list_secrets({}) == []


def test_without_settings_there_is_no_api_and_only_reading_is_allowed() -> None:
    assert asdict(ApiSettings()) == {
        "documentation": None,
        "command": [],
        "base_url": None,
        "base_url_env": "BOS_API_BASE_URL",
        "hosts": [],
        "methods": ["GET"],
        "token_env": "BOS_API_TOKEN",
        "firebase_key_env": "FIREBASE_WEB_API_KEY",
        "firebase_email_env": "FIREBASE_EMAIL",
        "firebase_password_env": "FIREBASE_PASSWORD",
        "identity_url": "https://identitytoolkit.googleapis.com",
        "securetoken_url": "https://securetoken.googleapis.com",
        "token_file": None,
        "timeout_seconds": 30.0,
        "max_response_bytes": 200_000,
        "top_k": 8,
    }


def test_every_secret_is_named_by_a_variable_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ApiSettings(token_env="A", firebase_key_env="B", firebase_email_env="C", firebase_password_env="D")
    assert settings.list_secrets({"D": "d", "C": "c", "B": "b", "A": "a", "E": "e"}) == ["a", "b", "c", "d"]
    for name in "ABCD":
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("C", "of the environment")
    assert settings.list_secrets() == ["of the environment"]
