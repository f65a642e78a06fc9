"""Settings that cannot be right are refused by name."""

from dataclasses import asdict
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.tools.http.blocked_sites import BLOCKED_SITES, find_blocked_site
from mas.tools.http.settings import WebSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": 0},
        {"max_bytes": -1},
        {"attempts": 0},
        {"search_results": 21},
        {"max_redirects": -1},
        {"search_requests_per_minute": 0},
        {"youtube_requests_per_minute": 0},
        {"pages_per_minute_and_host": -1},
        {"max_searches_per_question": 0},
        {"search_base_url": "api.tavily.com"},
        {"wikipedia_url": "file:///etc"},
        {"youtube_url": ""},
        {"wikipedia_language": "en/../x"},
        {"contact": "me\r\nHost: x"},
        {"search_api_key_env": "tvly-0123-secret"},
        {"blocked_sites": ["*"]},
        {"blocked_sites": [""]},
        {"more_blocked_sites": ["example.org", "* "]},
        {"more_blocked_sites": ["https://example.org/answers"]},
        {"more_blocked_sites": [" example.org"]},
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
    first.more_blocked_sites.append("example.org")
    assert second.more_blocked_sites == []
    assert WebSettings(wikipedia_language="de").wikipedia_api == "https://de.wikipedia.org/w/api.php"


def test_blocked_sites_are_those_of_the_house_or_ones_own_and_more_can_be_added_to_either() -> None:
    assert WebSettings().blocked == BLOCKED_SITES
    assert WebSettings(more_blocked_sites=["example.org"]).blocked == (*BLOCKED_SITES, "example.org")
    assert WebSettings(blocked_sites=["a.org"], more_blocked_sites=["b.org/*/c"]).blocked == ("a.org", "b.org/*/c")
    assert WebSettings(blocked_sites=[]).blocked == ()


@pytest.mark.parametrize("entry", ["https://example.org/x", " example.org/x", "example.org//x"])
def test_an_entry_that_is_refused_would_have_been_found_nowhere(entry: str) -> None:
    assert find_blocked_site("https://example.org/x", [entry]) is None
    with pytest.raises(UserError, match="which is found in no address; give host and path without http://"):
        WebSettings(more_blocked_sites=[entry]).check()


@pytest.mark.parametrize(
    "edge",
    [
        {"search_results": 20},
        {"max_redirects": 0},
        {"max_retry_after_seconds": 0},
        {"attempts": 1},
        {"youtube_requests_per_minute": None},
        {"max_searches_per_question": None},
        {"contact": "x" * 200},
    ],
)
def test_the_edges_of_the_ranges_are_accepted(edge: dict[str, Any]) -> None:
    WebSettings(**edge).check()


@pytest.mark.parametrize("url", ["https://", "ftp://example.org", "//example.org"])
def test_an_address_needs_both_a_scheme_and_a_host(url: str) -> None:
    with pytest.raises(UserError, match="is no URL; expected one with http or https"):
        WebSettings(youtube_url=url).check()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_file_bytes": 0}, "tools.web.max_file_bytes=0 is out of range; expected more than 0."),
        ({"max_search_bytes": 0}, "tools.web.max_search_bytes=0 is out of range; expected more than 0."),
        (
            {"wikipedia_requests_per_minute": 0},
            "tools.web.wikipedia_requests_per_minute=0 is out of range; expected more than 0, or null for no limit.",
        ),
        ({"max_redirects": -1}, "tools.web.max_redirects and max_retry_after_seconds must be 0 or more."),
        ({"max_retry_after_seconds": -1}, "tools.web.max_redirects and max_retry_after_seconds must be 0 or more."),
        ({"search_results": 21}, "tools.web.search_results=21 is out of range; expected 1 to 20."),
        (
            {"search_base_url": "ftp://x"},
            "tools.web.search_base_url='ftp://x' is no URL; expected one with http or https.",
        ),
        ({"wikipedia_language": "e"}, "tools.web.wikipedia_language='e'; expected a code such as en."),
        (
            {"contact": "x" * 201},
            "tools.web.contact goes into a request's header; expected at most 200 ASCII characters.",
        ),
        (
            {"more_blocked_sites": ["**"]},
            "tools.web.more_blocked_sites has an empty entry, which would block everything; take it out.",
        ),
    ],
)
def test_a_refusal_says_what_was_expected(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        WebSettings(**given).check()
    assert str(refused.value) == said


def test_the_defaults_hold_for_small_and_large_pages_and_all_services() -> None:
    settings = WebSettings()
    assert (settings.max_redirects, settings.attempts, settings.search_results) == (8, 3, 8)
    assert settings.fall_back_to_wikipedia
    assert settings.user_agent == "mas-harness/0.1 (no contact given) httpx"
    WebSettings(wikipedia_language="de", search_base_url="http://127.0.0.1:1", blocked_sites=[]).check()


def test_the_defaults_are_those_of_the_reference() -> None:
    assert asdict(WebSettings()) == {
        "seconds": 45.0, "max_bytes": 10_000_000, "max_file_bytes": 30_000_000, "max_redirects": 8,
        "pages_per_minute_and_host": 60.0, "attempts": 3, "max_retry_after_seconds": 15.0, "contact": "",
        "search_base_url": "https://api.tavily.com", "search_api_key_env": "TAVILY_API_KEY", "search_results": 8,
        "max_search_bytes": 2_000_000, "search_requests_per_minute": 90.0, "max_searches_per_question": 25,
        "fall_back_to_wikipedia": True, "wikipedia_url": "https://{language}.wikipedia.org/w/api.php",
        "wikipedia_language": "en", "wikipedia_requests_per_minute": 180.0, "youtube_url": "https://www.youtube.com",
        "youtube_requests_per_minute": 60.0, "blocked_sites": None, "more_blocked_sites": [],
        "allow_private_hosts": [],
    }  # fmt: skip
