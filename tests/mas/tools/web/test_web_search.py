"""tavily_tool against a loopback Tavily: what it sends, what it shows, and a sentence for each way to fail."""

import asyncio
import time
from typing import Any

import pytest

from mas.tools.catalogue import describe_missing_services
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import ToolSettings, WebSettings
from mas.tools.web.web_search import tavily_tool
from tests.mas.tools.web.in_context import LOOPBACK, events, recorded, using
from tests.servers.loopback import running
from tests.servers.tavily import KEY, LEAK_URL, TavilyServer


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)


def search(server: TavilyServer, query: str = "Varga Peak", **changes: Any) -> ToolResult:
    with using(
        WebSettings(search_base_url=server.base_url, allow_private_hosts=[LOOPBACK], **{"seconds": 5, **changes})
    ):
        return asyncio.run(tavily_tool(query))


def test_results_come_with_address_date_and_text_and_the_key_goes_in_the_header_alone() -> None:
    with running(TavilyServer()) as server:
        shown = search(server, "lighthouse Marrow Point")
    assert shown.startswith("Web search for 'lighthouse Marrow Point': 1 results")
    assert "1. The lighthouse of Marrow Point\n   https://lights.example.org/marrow\n" in shown
    (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "x-tavily-access-mode" not in request.headers
    assert KEY.encode() not in request.body


def test_a_page_with_the_benchmarks_answers_is_dropped_counted_and_said() -> None:
    with running(TavilyServer()) as server, recorded() as trace:
        shown = search(server)
    assert "1 results\n1 left out: pages that publish this benchmark's answers are blocked" in shown
    assert "final answer" not in shown and LEAK_URL not in shown
    assert [each["url"] for each in events(trace, "blocked page")] == [LEAK_URL]


def test_a_key_that_the_service_repeats_and_half_characters_are_not_passed_on() -> None:
    with running(TavilyServer()) as server:
        shown = search(server, "echo")
    assert KEY not in shown and "key=[key]" in shown
    assert "\x00" not in shown
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("400", r"refuses the query as it is \(400\)"),
        ("401", r"refuses this request with the key in TAVILY_API_KEY \(401\)"),
        ("403", r"refuses this request with the key in TAVILY_API_KEY \(403\)"),
        ("429", r"too many requests \(429\)"),
        ("432", r"with the key in TAVILY_API_KEY \(432\)"),
        ("500", r"trouble of its own \(500\)"),
        ("302", r"refuses this request with the key in TAVILY_API_KEY \(302\)"),
        ("html", "answered with something that cannot be read"),
        ("deep", "answered with something that cannot be read"),
        ("null", "answered with something that cannot be read"),
        ("odd_results", "answered with something that cannot be read"),
        ("no_url", "answered with something that cannot be read"),
        ("reset", "cannot be reached or broke off"),
        ("endless", "larger than 2000000 bytes"),
    ],
)
def test_each_failure_has_its_sentence_without_the_key(fault: str, sentence: str) -> None:
    with running(TavilyServer([fault] * 3)) as server, pytest.raises(ToolError, match=sentence) as failed:
        search(server)
    assert KEY not in str(failed.value)


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_the_time_is_for_the_whole_reply_not_for_each_part(fault: str) -> None:
    with running(TavilyServer([fault])) as server:
        started = time.monotonic()
        with pytest.raises(ToolError, match=r"Web search did not answer (within 0\.5 seconds|in time)"):
            search(server, seconds=0.5)
        assert time.monotonic() - started < 100


def test_what_passes_is_tried_again_after_the_wait_that_the_server_asks_for() -> None:
    with running(TavilyServer(["429_retry_after_1", "503", "ok"])) as server:
        started = time.monotonic()
        assert "Varga Peak is 4,218 metres" in search(server)
        assert time.monotonic() - started >= 1.0
    assert len(server.requests) == 3


def test_a_wait_of_an_hour_is_not_waited_for() -> None:
    with running(TavilyServer(["429_retry_after_3600", "ok"])) as server:
        started = time.monotonic()
        with pytest.raises(ToolError, match=r"\(429\)"):
            search(server)
        assert time.monotonic() - started < 100
    assert len(server.requests) == 1


def test_without_a_key_nothing_is_sent_and_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "  "):
        monkeypatch.setenv("TAVILY_API_KEY", value)
        with running(TavilyServer()) as server, pytest.raises(ToolError, match="_KEY is not set; use another tool"):
            search(server)
        assert server.requests == []


def test_what_a_run_is_told_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not list(describe_missing_services(ToolSettings(), ["tavily_tool"]))
    monkeypatch.delenv("TAVILY_API_KEY")
    (said,) = describe_missing_services(ToolSettings(), ["tavily_tool"])
    assert said.startswith("TAVILY_API_KEY is not set")
