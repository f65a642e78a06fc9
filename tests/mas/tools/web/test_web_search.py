"""web_search against a loopback Tavily: what it sends, what it shows, and a sentence for each way to fail."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import dspy
import httpx
import pytest

from mas.runtime.sample_context import KeptResult
from mas.tools.http.settings import WebSettings
from mas.tools.read_only import open_cached_call
from mas.tools.results import ToolError, ToolResult
from mas.tools.web import tavily_search
from mas.tools.web.page_view import FoundPage
from mas.tools.web.web_search import describe_missing_search, web_search
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
    fast: dict[str, Any] = {"attempts": 1, "seconds": 5, "fall_back_to_wikipedia": False, "wikipedia_url": NEVER}
    fast["search_requests_per_minute"] = None
    with using(WebSettings(search_base_url=server.base_url, contact=CONTACT, **{**fast, **changes})):
        return asyncio.run(web_search(query))


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


@pytest.mark.parametrize("query", ["lighthouse Marrow Point", "Varga Peak", "echo"])
def test_a_long_answer_is_parsed_in_the_reader_process_and_shown_alike(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(TavilyServer()) as server:
        short = search(server, query)
        monkeypatch.setattr(tavily_search, "MAX_OWN_BYTES", 10)
        monkeypatch.setattr("httpx.Response.json", _parse_short_only)
        assert search(server, query) == short


def _parse_short_only(response: httpx.Response) -> Any:
    answer = json.loads(response.content)
    assert set(answer) == {"results"}, "what is not shown was left out"
    return answer


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("html", "no JSON"),
        ("deep", "no JSON"),
        ("list", "something unexpected"),
        ("500", "trouble of its own"),
        ("odd_results", "cannot be read"),
    ],
)
def test_a_long_answer_that_is_none_has_its_sentence(
    fault: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tavily_search, "MAX_OWN_BYTES", 1)
    with running(TavilyServer({"every": 1, "fault": fault})) as server, pytest.raises(ToolError, match=sentence):
        search(server)


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
        ("502", r"trouble of its own \(502\)"),
        ("302", r"refuses the request \(302\)"),
        ("html", "answered with something that cannot be read"),
        ("deep", "answered with something that cannot be read"),
        ("list", "answered with something that cannot be read"),
        ("null", "answered with something that cannot be read"),
        ("odd_results", "answered with something that cannot be read"),
        ("no_url", "answered with something that cannot be read"),
        ("reset", "broke off or gave no proper reply"),
        ("cut", "broke off or gave no proper reply"),
        ("no_http", "broke off or gave no proper reply"),
        ("endless", "larger than 2000000 bytes"),
        ("bomb", "larger than 2000000 bytes"),
    ],
)
def test_each_failure_has_its_sentence_without_the_key(fault: str, sentence: str) -> None:
    with running(TavilyServer([fault])) as server, pytest.raises(ToolError, match=sentence) as failed:
        search(server)
    assert KEY not in str(failed.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_the_time_is_for_the_whole_reply_not_for_each_part(fault: str) -> None:
    with running(TavilyServer([fault])) as server:
        started = time.monotonic()
        with pytest.raises(ToolError, match=r"Web search did not answer (within 0\.5 seconds|in time)"):
            search(server, seconds=0.5)
        assert time.monotonic() - started < 3


def test_nobody_there_is_a_sentence() -> None:
    with running(TavilyServer()) as server:
        pass
    with pytest.raises(ToolError, match="Web search cannot be reached"):
        search(server)


def test_what_passes_is_tried_again_after_the_wait_that_the_server_asks_for() -> None:
    with running(TavilyServer(["429_retry_after_1", "503", "ok"])) as server:
        started = time.monotonic()
        assert "Varga Peak is 4,218 metres" in search(server, attempts=3)
        assert time.monotonic() - started >= 1.0
    assert len(server.requests) == 3


def test_what_does_not_pass_is_not_tried_again() -> None:
    with running(TavilyServer({"every": 1, "fault": "401"})) as server, pytest.raises(ToolError):
        search(server, attempts=3)
    assert len(server.requests) == 1


def test_a_wait_of_an_hour_is_not_waited_for() -> None:
    with running(TavilyServer(["429_retry_after_3600", "ok"])) as server:
        started = time.monotonic()
        with pytest.raises(ToolError, match=r"\(429\)"):
            search(server, attempts=3)
        assert time.monotonic() - started < 3
    assert len(server.requests) == 1


def test_without_a_key_nothing_is_sent_and_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "  "):
        monkeypatch.setenv("TAVILY_API_KEY", value)
        with running(TavilyServer()) as server, pytest.raises(ToolError, match="variable TAVILY_API_KEY holds no key"):
            search(server)
        assert server.requests == []


def test_another_variable_can_hold_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "wrong")
    monkeypatch.setenv("SEARCH_KEY", KEY)
    with running(TavilyServer()) as server:
        assert "1 results" in search(server, search_api_key_env="SEARCH_KEY")


def test_what_a_run_is_told_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_missing_search(WebSettings()) is None
    monkeypatch.delenv("TAVILY_API_KEY")
    assert describe_missing_search(WebSettings()) == (
        "TAVILY_API_KEY is not set: there is no web search; Wikipedia's search answers instead."
    )
    assert "web_search only fails" in (describe_missing_search(WebSettings(fall_back_to_wikipedia=False)) or "")


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
    with running(TavilyServer([fault])) as server, a_question() as question:
        question.tool_log = log
        call = asyncio.run(open_cached_call(question, dspy.Tool(web_search), {"query": "varga"}))
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


@pytest.mark.parametrize("query", ["", "  \n", "x" * 401])
def test_a_query_that_the_service_would_refuse_is_not_sent(query: str) -> None:
    with running(TavilyServer()) as server, pytest.raises(ToolError, match="give 1 to 400"):
        search(server, query)
    assert server.requests == []


def test_no_result_is_said() -> None:
    with running(TavilyServer()) as server:
        assert "(nothing found; try other words)" in search(server, "zzz")
    with running(TavilyServer(["no_results"])) as server:
        assert "(nothing found; try other words)" in search(server)


def found_by(
    monkeypatch: pytest.MonkeyPatch, found: list[FoundPage] | ToolError, wiki: list[FoundPage] | ToolError
) -> list[tuple[object, ...]]:
    """Let the web search and Wikipedia's find so, without a request; return what they are asked."""
    asked: list[tuple[object, ...]] = []

    def search_for(answer: list[FoundPage] | ToolError) -> Any:
        async def search(query: str, settings: WebSettings, *most: int) -> list[FoundPage]:
            asked.append((query, *most))
            if isinstance(answer, ToolError):
                raise answer
            return answer

        return search

    monkeypatch.setattr(tavily_search, "search_tavily", search_for(found))
    monkeypatch.setattr("mas.tools.web.mediawiki.search_wikipedia", search_for(wiki))
    return asked


def look_up(query: str = "towns", **settings: Any) -> ToolResult:
    with using(WebSettings(**settings)):
        return asyncio.run(web_search(query))


TOWNS = [FoundPage(f"Town {number}", f"https://{number}.example.org/", f"text {number}") for number in range(3)]


def test_a_list_of_results_whole_with_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [FoundPage("In", "http://127.0.0.1/", "x"), FoundPage("A", "https://a.example/answers/1", "x")]
    asked = found_by(monkeypatch, [odd[0], TOWNS[0], odd[1], *TOWNS[1:], odd[1]], [])
    shown = look_up(" towns \n of\u0000 old ", search_results=2, blocked_sites=["a.example/answers"])
    assert shown == (
        "Web search for 'towns of\ufffd old': 3 results\n2 left out: pages that publish this benchmark's answers are "
        "blocked\n\n1. Town 0\n   https://0.example.org/\n   text 0\n2. Town 1\n   https://1.example.org/\n   text 1"
    )
    assert (shown.kind, shown.is_substitute, shown.is_temporary) == ("web_search", False, False)
    assert asked == [("towns of\ufffd old",)]
    assert look_up(search_results=3).partition("\n")[0] == "Web search for 'towns': 5 results"


def test_the_longest_query_is_sent_and_a_longer_one_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = found_by(monkeypatch, [], [])
    assert look_up("x" * 400) == f"Web search for {'x' * 400!r}: 0 results\n\n(nothing found; try other words)"
    look_up("x")
    assert asked == [("x" * 400,), ("x",)]
    for query, count in (("x" * 401, 401), (" \n", 0)):
        with pytest.raises(ToolError) as refused:
            look_up(query)
        assert str(refused.value) == f"The query has {count} characters; give 1 to 400."
    assert len(asked) == 2


@pytest.mark.parametrize("key", ["", KEY])
def test_wikipedia_is_asked_instead_with_a_shorter_query_and_what_it_finds_is_a_substitute(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", key)
    asked = found_by(monkeypatch, ToolError("Web search is tired."), TOWNS[:1])
    with recorded() as trace:
        shown = look_up("x" * 301, search_results=5)
    assert shown == (
        f"Wikipedia's search for {'x' * 301!r}, since web search failed: 1 pages\nWeb search is tired.\n\n"
        "1. Town 0\n   https://0.example.org/\n   text 0"
    )
    assert (shown.is_substitute, shown.is_temporary) == (True, bool(key))
    assert asked == [("x" * 301,), ("x" * 300, 5)]
    (event,) = events(trace, "web search fell back to Wikipedia")
    assert (event["level"], event["reason"]) == ("warning", "Web search is tired.")
    found_by(monkeypatch, ToolError("Web search is tired."), [])
    assert look_up().endswith(": 0 pages\nWeb search is tired.\n\n(nothing found; try fewer words, or a name)")


def test_each_failure_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = found_by(monkeypatch, ToolError("Web search is tired."), ToolError("Wikipedia is, too."))
    with pytest.raises(ToolError) as failed:
        look_up()
    assert str(failed.value) == "Web search is tired. Wikipedia's search, asked instead, failed too: Wikipedia is, too."
    with pytest.raises(ToolError) as failed:
        look_up(fall_back_to_wikipedia=False)
    assert str(failed.value) == "Web search is tired." and len(asked) == 3


def test_the_key_is_hidden_wherever_a_page_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found_by(monkeypatch, [FoundPage(f"t {KEY}", f"https://a.example.org/{KEY}", f"x {KEY}")], [])
    assert look_up(f"is {KEY} known") == (
        "Web search for 'is [key] known': 1 results\n\n1. t [key]\n   https://a.example.org/[key]\n   x [key]"
    )


def test_searches_are_counted_for_each_question_and_without_one_or_a_limit_there_is_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = found_by(monkeypatch, [], [])
    with a_question() as question:
        for _ in range(3):
            look_up(max_searches_per_question=3)
        assert question.tool_state["web_search"] == 3
        with pytest.raises(ToolError) as refused:
            look_up(max_searches_per_question=3)
        assert str(refused.value) == (
            "The question has made its 3 web searches (tools.web.max_searches_per_question); "
            "go on with the pages that it has found."
        )
        look_up(max_searches_per_question=None)
        assert question.tool_state["web_search"] == 4
    look_up(max_searches_per_question=0)
    assert len(asked) == 5
