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
