"""What `tools.browser` refuses before a run begins."""

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
