"""Settings of the service that would be wrong, or open to others."""

from dataclasses import asdict

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.serving.settings import ServiceSettings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"port": 70000}, r"service\.port=70000"),
        ({"max_requests": 0}, r"service\.max_requests=0"),
        ({"request_seconds": -1.0}, r"service\.request_seconds=-1\.0"),
        ({"drain_seconds": -1.0}, r"service\.drain_seconds"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ServiceSettings(**settings).check()  # type: ignore[arg-type]


def test_others_reach_the_service_with_a_long_token_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOS_SERVICE_TOKEN", raising=False)
    ServiceSettings().check_token()
    with pytest.raises(UserError, match=r"host=0\.0\.0\.0 can be reached by others.*BOS_SERVICE_TOKEN"):
        ServiceSettings(host="0.0.0.0").check_token()
    monkeypatch.setenv("BOS_SERVICE_TOKEN", "short")
    with pytest.raises(UserError, match="5 characters") as refused:
        ServiceSettings().check_token()
    assert "short" not in str(refused.value)
    monkeypatch.setenv("BOS_SERVICE_TOKEN", "a-token-that-is-long-enough")
    ServiceSettings(host="0.0.0.0").check_token()


@pytest.mark.parametrize(
    ("settings", "is_allowed"),
    [
        ({"port": 0}, True),
        ({"port": 65535}, True),
        ({"port": -1}, False),
        ({"port": 65536}, False),
        ({"drain_seconds": 0.0}, True),
        *(
            case
            for key in ("max_body_bytes", "max_question_chars", "max_requests", "request_seconds", "keep_alive_seconds")
            for case in (({key: 1}, True), ({key: 0}, False), ({key: -1}, False))
        ),
    ],
    ids=str,
)
def test_the_limits_themselves_are_allowed(settings: dict[str, float], is_allowed: bool) -> None:
    given = ServiceSettings(**settings)  # type: ignore[arg-type]
    if is_allowed:
        given.check()
        return
    with pytest.raises(UserError, match="is out of range"):
        given.check()


def test_a_token_of_sixteen_characters_is_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOS_SERVICE_TOKEN", "x" * 16)
    ServiceSettings(host="0.0.0.0").check_token()
    monkeypatch.setenv("BOS_SERVICE_TOKEN", "x" * 15)
    with pytest.raises(UserError, match="has 15 characters; a token needs 16 or more"):
        ServiceSettings(host="0.0.0.0").check_token()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_this_machine_alone_needs_no_token(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOS_SERVICE_TOKEN", raising=False)
    ServiceSettings(host=host).check_token()


def test_the_service_is_for_this_machine_alone_unless_it_is_said_otherwise() -> None:
    assert asdict(ServiceSettings()) == {
        "host": "127.0.0.1",
        "port": 8765,
        "token_env": "BOS_SERVICE_TOKEN",
        "max_body_bytes": 100_000,
        "max_question_chars": 10_000,
        "max_requests": 16,
        "request_seconds": 300.0,
        "keep_alive_seconds": 15.0,
        "drain_seconds": 30.0,
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"port": -1}, "system.service.port=-1 is out of range; expected 0 to 65535."),
        ({"drain_seconds": -0.5}, "system.service.drain_seconds=-0.5 is out of range; expected 0 or more."),
        ({"max_requests": 0}, "system.service.max_requests=0 is out of range; expected more than 0."),
    ],
)
def test_a_number_out_of_range_is_named_with_what_is_expected(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError) as raised:
        ServiceSettings(**settings).check()  # type: ignore[arg-type]
    assert str(raised.value) == message


def test_a_token_is_that_of_the_named_variable_and_what_is_wrong_with_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOS_SERVICE_TOKEN", "y" * 16)
    settings = ServiceSettings(token_env="MINE", host="bos.example")
    monkeypatch.delenv("MINE", raising=False)
    assert settings.token == ""
    with pytest.raises(UserError) as raised:
        settings.check_token()
    assert str(raised.value) == (
        "system.service.host=bos.example can be reached by others, who need a token; put one into the environment "
        "variable MINE, or leave the host out."
    )
    monkeypatch.setenv("MINE", "z" * 15)
    assert settings.token == "z" * 15
    for host in ("bos.example", "127.0.0.1"):
        settings.host = host
        with pytest.raises(UserError) as raised:
            settings.check_token()
        assert str(raised.value) == (
            "MINE has 15 characters; a token needs 16 or more: "
            "python -c 'import secrets; print(secrets.token_urlsafe())' makes one."
        )
