"""Addresses that are checked before anything is spent."""

import socket
from types import SimpleNamespace

import pytest

from mas.llm.profiles.reachable import check_reachable
from mas.runtime.errors import UserError

EXAMPLE = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize("url", ["http://[::1", "http://ann:topsecret@[::1", "localhost:8000", "http://"])
def test_what_is_no_url_is_a_sentence_without_its_password(url: str) -> None:
    with pytest.raises(UserError, match="is not a URL") as caught:
        check_reachable(url, "model.base_url", "model server", EXAMPLE)
    assert str(caught.value).startswith("model.base_url")
    assert f"expected something like {EXAMPLE}." in str(caught.value)
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("who", ["ann:topsecret@", "ann@", ":topsecret@"])
def test_an_address_with_a_user_or_a_password_is_not_repeated(who: str) -> None:
    with pytest.raises(UserError) as caught:
        check_reachable(f"http://{who}127.0.0.1:9/v1", "model.base_url", "model server", EXAMPLE)
    assert str(caught.value) == (
        "model.base_url holds a user name or password, and a configuration is saved with its run; put the secret into "
        "an environment variable and name that."
    )


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://a.org/v1", ("a.org", 80)),
        ("https://a.org/v1", ("a.org", 443)),
        ("http://a.org:8000", ("a.org", 8000)),
        ("https://[::1]:1", ("::1", 1)),
    ],
)
def test_the_port_is_the_usual_one_unless_it_is_named(
    url: str, place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = list[object]()

    def connect(address: tuple[str, int], timeout: float) -> SimpleNamespace:
        events.append((address, timeout > 0))
        return SimpleNamespace(close=lambda: events.append("closed"))

    monkeypatch.setattr(socket, "create_connection", connect)
    check_reachable(url, "model.base_url", "model server", EXAMPLE)
    assert events == [(place, True), "closed"]


@pytest.mark.parametrize("url", ["ftp://a.org", "http:///v1", "a.org"])
def test_another_scheme_or_no_host_is_no_address(url: str) -> None:
    with pytest.raises(UserError) as caught:
        check_reachable(url, "model.base_url", "model server", EXAMPLE)
    assert str(caught.value) == f"model.base_url={url} is not a URL; expected something like {EXAMPLE}."


def test_an_address_where_nothing_listens_is_told_with_what_to_do() -> None:
    for url in ("http://127.0.0.1:9/v1", "http://127.0.0.1:99999/v1"):
        with pytest.raises(UserError) as caught:
            check_reachable(url, "model.base_url", "model server", EXAMPLE)
        message = str(caught.value)
        assert message.startswith(f"no model server answers at model.base_url={url.removesuffix('/v1')} (")
        assert message.endswith("); start it, or correct the address.")
