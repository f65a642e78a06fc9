"""Settings that cannot be right are refused by name."""

from typing import Any

import pytest

from mas.errors import UserError
from mas.tools.web.settings import WebSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": 0},
        {"max_bytes": -1},
        {"attempts": 0},
        {"search_results": 21},
        {"max_redirects": -1},
        {"search_requests_per_minute": 0},
        {"max_searches_per_question": 0},
        {"search_base_url": "api.tavily.com"},
        {"wikipedia_url": "file:///etc"},
        {"youtube_url": ""},
        {"wikipedia_language": "en/../x"},
        {"contact": "me\r\nHost: x"},
        {"search_api_key_env": "tvly-0123-secret"},
        {"blocked_sites": ["*"]},
    ],
)
def test_a_value_out_of_range_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=rf"tools\.web\.{next(iter(wrong))}|{next(iter(wrong))} is no name"):
        WebSettings(**wrong).check()


def test_a_key_put_where_its_name_belongs_is_not_repeated() -> None:
    with pytest.raises(UserError) as refused:
        WebSettings(search_api_key_env="tvly-0123-secret").check()
    assert "0123" not in str(refused.value)


def test_the_defaults_are_right_and_each_instance_has_its_own_lists() -> None:
    first, second = WebSettings(), WebSettings()
    first.check()
    first.blocked_sites.clear()
    assert second.blocked_sites
    assert WebSettings(wikipedia_language="de").wikipedia_api == "https://de.wikipedia.org/w/api.php"
