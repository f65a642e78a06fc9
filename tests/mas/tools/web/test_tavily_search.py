"""What the search service is asked, and what its answers and refusals become."""

import asyncio
import json
from typing import Any

import pytest

from mas.tools.http.client import TransientError
from mas.tools.http.settings import WebSettings
from mas.tools.results import ToolError
from mas.tools.web import tavily_search
from mas.tools.web.page_view import FoundPage
from mas.tools.web.tavily_search import describe_missing_key, search_tavily
from tests.servers.loopback import Answer, Asked, running
from tests.servers.tavily import KEY, TavilyServer

UNREADABLE = "Web search answered with something that cannot be read; try again later or in other words."


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)


class Saying(TavilyServer):
    """Service that gives one answer to everything."""

    def __init__(self, body: object, status: int = 200, **headers: str) -> None:
        super().__init__()
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.said = Answer(text, status, {"Content-Type": "application/json", **named})

    def answer(self, asked: Asked) -> Answer:
        return self.said


def search(server: TavilyServer, **changes: Any) -> list[FoundPage]:
    fast: dict[str, Any] = {"attempts": 1, "seconds": 5, "search_requests_per_minute": None}
    settings = WebSettings(search_base_url=server.base_url, **{**fast, **changes})
    return asyncio.run(search_tavily("varga peak", settings))


def fail(server: TavilyServer, **changes: Any) -> ToolError:
    with running(server), pytest.raises(ToolError) as failed:
        search(server, **changes)
    return failed.value


def test_the_query_goes_out_with_the_number_of_results() -> None:
    with running(TavilyServer()) as server:
        found = search(server, search_results=1)
    (asked,) = server.requests
    body = json.loads(asked.body)
    assert (asked.method, asked.path) == ("POST", "/search")
    assert (body["query"], body["max_results"]) == ("varga peak", 1)
    assert found == [
        FoundPage(
            "Varga Peak - height and first ascent (2023-04-05)",
            "https://peaks.example.org/varga-peak",
            "Varga Peak is 4,218 metres high and was first climbed in 1931.",
        )
    ]


def test_what_a_result_does_not_say_is_empty() -> None:
    results = [
        {"url": "u", "title": None, "content": None, "published_date": ""},
        {"url": 7},
        {"url": "u", "title": "t", "content": "c", "published_date": "d"},
    ]
    with running(Saying({"results": results})) as server:
        assert search(server) == [FoundPage("", "u", ""), FoundPage("", "7", ""), FoundPage("t (d)", "u", "c")]


@pytest.mark.parametrize("body", [{"results": 3}, {"results": None}, {"results": [{}]}, {"results": ["x"]}, b"<", []])
def test_an_answer_of_another_form_cannot_be_read(body: object) -> None:
    assert str(fail(Saying(body))) == UNREADABLE


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Web search refuses the query as it is (400); use fewer and simpler words."),
        (401, "Web search refuses the key in TAVILY_API_KEY (401); go on without it."),
        (403, "Web search refuses this request with the key in TAVILY_API_KEY (403); go on without it."),
        (
            432,
            "Web search refuses further searches: the plan of the key in TAVILY_API_KEY is used up (432); "
            "go on without it.",
        ),
        (
            433,
            "Web search refuses further searches: the spending limit of the key in TAVILY_API_KEY is reached (433); "
            "go on without it.",
        ),
        (418, "Web search refuses the request (418); go on without it."),
        (499, "Web search refuses the request (499); go on without it."),
    ],
)
def test_a_refusal_that_lasts_is_told_and_not_tried_again(status: int, said: str) -> None:
    error = fail(Saying({"detail": {"error": KEY}}, status), attempts=3)
    assert str(error) == said and not isinstance(error, TransientError)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (429, "Web search refuses for now: too many requests (429); try again later."),
        (500, "Web search has trouble of its own (500); try again later."),
        (503, "Web search has trouble of its own (503); try again later."),
    ],
)
def test_a_refusal_that_passes_says_when_to_ask_again(status: int, said: str) -> None:
    error = fail(Saying({}, status, Retry_After="7"))
    assert str(error) == said
    assert isinstance(error, TransientError) and error.retry_after_seconds == 7.0


def test_an_answer_is_parsed_here_up_to_a_length_and_elsewhere_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[tuple[str, object]] = []
    real = tavily_search.await_reader

    async def record(task: str, data: bytes, about: dict[str, object]) -> object:
        handed.append((task, about))
        return await real(task, data, about)

    monkeypatch.setattr(tavily_search, "await_reader", record)
    server = Saying({"results": [{"url": "u", "title": "t"}]})
    size = len(server.said.body)
    with running(server):
        for most, count in ((size, 0), (size - 1, 1)):
            monkeypatch.setattr(tavily_search, "MAX_OWN_BYTES", most)
            assert search(server) == [FoundPage("t", "u", "")]
            assert handed == [(tavily_search.SHORTEN, {"name": "Web search"})] * count
    monkeypatch.setattr(tavily_search, "MAX_OWN_BYTES", 1)
    assert "(418)" in str(fail(Saying({"detail": "long"}, 418)))
    assert len(handed) == 1, "a refusal is not read at all"


def test_a_reply_has_a_limit() -> None:
    server = Saying({"results": []})
    size = len(server.said.body)
    with running(server):
        assert search(server, max_search_bytes=size) == []
        with pytest.raises(ToolError, match=f"larger than {size - 1} bytes"):
            search(server, max_search_bytes=size - 1)


def test_without_a_key_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY")
    said = "Web search is not available: the environment variable TAVILY_API_KEY holds no key."
    assert describe_missing_key(WebSettings()) == said
    server = TavilyServer()
    assert str(fail(server)) == said and server.requests == []


def test_a_search_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[tuple[str, float | None]] = []

    async def record(service: str, per_minute: float | None) -> None:
        turns.append((service, per_minute))

    monkeypatch.setattr(tavily_search, "wait_for_turn", record)
    with running(TavilyServer()) as server:
        search(server, search_requests_per_minute=90)
    assert turns == [("search", 90)]
