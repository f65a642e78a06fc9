"""tavily_tool against a loopback Tavily: what it sends, what it shows, and a sentence for each way to fail."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import dspy
import pytest

from mas.runtime.sample_context import KeptResult
from mas.tools.read_only import open_cached_call
from mas.tools.results import ToolError, ToolResult
from mas.tools.settings import WebSettings
from mas.tools.web.web_search import describe_missing_search, tavily_tool
from tests.mas.tools.web.in_context import a_question, events, recorded, using
from tests.servers.loopback import running
from tests.servers.mediawiki import MediaWikiServer
from tests.servers.tavily import KEY, LEAK_URL, TavilyServer

CONTACT = "tests@example.org"
NEVER = "http://127.0.0.1:9/w/api.php"  # nothing listens there


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)


@pytest.fixture(scope="module")
def wiki() -> Iterator[MediaWikiServer]:
    with running(MediaWikiServer()) as server:
        yield server


def search(server: TavilyServer, query: str = "Varga Peak", **changes: Any) -> ToolResult:
    fast: dict[str, Any] = {"seconds": 5, "fall_back_to_wikipedia": False, "wikipedia_url": NEVER}
    with using(WebSettings(search_base_url=server.base_url, contact=CONTACT, **{**fast, **changes})):
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
        ("401", r"refuses the key in TAVILY_API_KEY \(401\)"),
        ("403", r"refuses this request with the key in TAVILY_API_KEY \(403\)"),
        ("429", r"too many requests \(429\)"),
        ("432", r"the plan of the key in TAVILY_API_KEY is used up \(432\)"),
        ("433", r"the spending limit of the key in TAVILY_API_KEY is reached \(433\)"),
        ("500", r"trouble of its own \(500\)"),
        ("302", r"refuses the request \(302\)"),
        ("html", "answered with something that cannot be read"),
        ("deep", "answered with something that cannot be read"),
        ("null", "answered with something that cannot be read"),
        ("odd_results", "answered with something that cannot be read"),
        ("no_url", "answered with something that cannot be read"),
        ("reset", "broke off or gave no proper reply"),
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
        assert time.monotonic() - started < 3


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
        assert time.monotonic() - started < 3
    assert len(server.requests) == 1


def test_without_a_key_nothing_is_sent_and_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "  "):
        monkeypatch.setenv("TAVILY_API_KEY", value)
        with running(TavilyServer()) as server, pytest.raises(ToolError, match="variable TAVILY_API_KEY holds no key"):
            search(server)
        assert server.requests == []


def test_what_a_run_is_told_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_missing_search(WebSettings()) is None
    monkeypatch.delenv("TAVILY_API_KEY")
    assert describe_missing_search(WebSettings()) == (
        "TAVILY_API_KEY is not set: there is no web search; Wikipedia's search answers instead."
    )
    assert "tavily_tool only fails" in (describe_missing_search(WebSettings(fall_back_to_wikipedia=False)) or "")


@pytest.mark.parametrize("fault", ["432", "html"])
def test_wikipedia_steps_in_and_the_observation_says_so(wiki: MediaWikiServer, fault: str) -> None:
    with running(TavilyServer([fault])) as server, recorded() as trace:
        shown = search(server, "varga", fall_back_to_wikipedia=True, wikipedia_url=wiki.api_url)
    assert shown.startswith("Wikipedia's search for 'varga', since web search failed: 2 pages\nWeb search ")
    assert "/wiki/Ada_Varga\n   Ada Varga is a singer" in shown
    assert len(events(trace, "web search fell back to Wikipedia")) == 1


def test_wikipedia_steps_in_where_there_is_no_key(wiki: MediaWikiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY")
    with running(TavilyServer()) as server:
        shown = search(server, "varga", fall_back_to_wikipedia=True, wikipedia_url=wiki.api_url)
    assert "TAVILY_API_KEY holds no key" in shown and "Ada_Varga" in shown
    assert server.requests == []


class Log(dict[str, KeptResult]):
    """`mas.runtime.sample_context.ToolResults` in memory."""

    def find(self, key: str) -> KeptResult | None:
        return self.get(key)

    def keep(self, key: str, result: KeptResult) -> None:
        self[key] = result


@pytest.mark.parametrize(
    ("fault", "key", "kept"),
    [
        ("ok", KEY, True),
        ("503", KEY, False),
        ("429", KEY, False),
        ("432", KEY, False),  # until its plan is renewed
        ("ok", "", True),  # what this run has for a web search
    ],
)
def test_wikipedias_results_are_kept_only_where_the_search_itself_would_not_work_the_next_time(
    wiki: MediaWikiServer, monkeypatch: pytest.MonkeyPatch, fault: str, key: str, kept: bool
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", key)
    log = Log()
    with running(TavilyServer([fault] * 3)) as server, a_question() as question:
        question.tool_log = log
        call = asyncio.run(open_cached_call(question, dspy.Tool(tavily_tool), {"query": "varga"}))
        shown = search(server, "varga", fall_back_to_wikipedia=True, wikipedia_url=wiki.api_url)
        call.keep(shown)
    assert [each.returned for each in log.values()] == ([shown] if kept else [])


def test_both_failures_are_told_where_wikipedia_fails_too() -> None:
    with running(TavilyServer(["432"])) as server, pytest.raises(ToolError, match=r"\(432\).*failed too: Wikipedia"):
        search(server, fall_back_to_wikipedia=True)


def test_a_question_has_so_many_searches() -> None:
    with running(TavilyServer()) as server, a_question():
        for _ in range(2):
            search(server, max_searches_per_question=2)
        with pytest.raises(ToolError, match=r"made its 2 web searches"):
            search(server, max_searches_per_question=2)
        assert len(server.requests) == 2
        with a_question():
            search(server, max_searches_per_question=2)
