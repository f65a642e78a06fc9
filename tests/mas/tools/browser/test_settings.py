"""What `tools.browser` refuses before a run begins."""

from dataclasses import asdict
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.tools.browser.settings import BrowserSettings


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:3000/mcp", "https://browser.example.org/mcp"])
def test_settings_that_can_be(url: str | None) -> None:
    BrowserSettings(url=url).check()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {"url": "127.0.0.1:3000"},
            "tools.browser.url=127.0.0.1:3000 is not a URL; expected something like http://127",
        ),
        ({"url": "http://host:port/mcp"}, "is not a URL"),
        ({"url": ""}, "is not a URL"),
        ({"max_sessions": 0}, "tools.browser.max_sessions=0"),
        ({"action_seconds": 0}, "tools.browser.action_seconds=0"),
        ({"action_seconds": float("nan")}, "tools.browser.action_seconds=nan"),
    ],
)
def test_settings_that_cannot_be_are_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=r"tools\.browser") as refused:
        BrowserSettings(**settings).check()
    assert named in str(refused.value)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UserError) as refused:
        BrowserSettings(url="http://me:hunter2@host:3000/mcp").check()
    assert "hunter2" not in str(refused.value)


def test_the_defaults_are_those_of_the_reference() -> None:
    assert asdict(BrowserSettings()) == {
        "url": "http://127.0.0.1:3000/mcp", "max_sessions": 8, "action_seconds": 60.0, "tools": None
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        *(
            (
                {"url": url},
                f"tools.browser.url={url} is not a URL; expected something like http://127.0.0.1:3000/mcp, or null.",
            )
            for url in ("ftp://host/mcp", "http:///mcp", "http://:3000/mcp", "http://host:0/mcp", "http://host:70000/")
        ),
        *(
            (
                {"url": f"http://{who}@host/mcp"},
                "tools.browser.url holds a user name or password, which would be saved with the run; "
                "let the browser's server listen where only this machine can reach it.",
            )
            for who in ("me", ":secret", "me:secret")
        ),
        ({"max_sessions": 0}, "tools.browser.max_sessions=0 is too small; at least 1 is needed."),
        ({"action_seconds": 0.0}, "tools.browser.action_seconds=0.0 is out of range; expected more than 0."),
    ],
)
def test_each_refusal_is_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        BrowserSettings(**settings).check()
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "settings", [{"url": "http://host"}, {"url": "https://host:1/"}, {"max_sessions": 1}, {"action_seconds": 0.01}]
)
def test_the_edges_are_accepted(settings: dict[str, Any]) -> None:
    BrowserSettings(**settings).check()
