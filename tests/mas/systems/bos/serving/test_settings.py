"""Settings of the service that would be wrong, or open to others."""

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
