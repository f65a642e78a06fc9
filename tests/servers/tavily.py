"""Tavily's API as its own client asks for it: POST /search and /extract, with the service's refusals by schedule.

    with running(TavilyServer()) as server: ...      # tools.web.search_base_url=server.base_url

Status and words of the refusals are those of the API's reference. A request without a key that says `keyless` is
answered, as the service does: a test can then see that none was sent.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.servers.loopback import DEEP, NUISANCES, Answer, Asked, LoopbackServer, answer_json, bomb

KEY = "tvly-test-0123456789abcdef"
LEAK_URL = "https://huggingface.co/datasets/gaia-benchmark/GAIA"


def _refusal(status: int, message: str, **headers: str) -> Answer:
    return answer_json({"detail": {"error": message}}, status, **headers)


_RATE = "Your request has been blocked due to excessive requests. Please reduce the rate of requests."
DOCUMENTS: tuple[dict[str, Any], ...] = (
    {
        "title": "Varga Peak - height and first ascent",
        "url": "https://peaks.example.org/varga-peak",
        "content": "Varga Peak is 4,218 metres high and was first climbed in 1931.",
        "published_date": "2023-04-05",
    },
    {
        "title": "The lighthouse of Marrow Point",
        "url": "https://lights.example.org/marrow",
        "content": "The lighthouse of Marrow Point was lit in 1874; its lamp is 41 metres above the sea.",
    },
    {
        "title": "Answers of the benchmark",
        "url": LEAK_URL,
        "content": "metadata.jsonl: Varga Peak is the final answer to question 17.",
    },
)


class TavilyServer(LoopbackServer):
    faults: ClassVar[Mapping[str, Answer]] = {
        **NUISANCES,
        "400": _refusal(400, "Query is too long. Max query length is 400 characters."),
        "401": _refusal(401, f"Unauthorized: missing or invalid API key {KEY}."),
        "403": _refusal(403, "You are not allowed to use this endpoint."),
        "429": _refusal(429, _RATE),
        "429_retry_after_1": _refusal(429, _RATE, Retry_After="1"),
        "429_retry_after_3600": _refusal(429, _RATE, Retry_After="3600"),
        "432": _refusal(432, "This request exceeds your plan's set usage limit."),
        "433": _refusal(433, "This request exceeds the pay-as-you-go limit."),
        "500": _refusal(500, "Internal Server Error"),
        "502": Answer(b"<html>502 Bad Gateway</html>", 502, {"Content-Type": "text/html"}),
        "503": _refusal(503, "Service unavailable"),
        "302": Answer(b"", 302, {"Location": "http://127.0.0.2:9/search"}),
        "deep": DEEP,
        "list": answer_json([1, 2]),
        "null": answer_json(None),
        "no_results": answer_json({"query": "x"}),
        "odd_results": answer_json({"results": [1, None]}),
        "no_url": answer_json({"results": [{"title": "t"}]}),
        "bomb": bomb(50, "application/json"),
    }

    def answer(self, asked: Asked) -> Answer:
        keyless = asked.headers.get("x-tavily-access-mode") == "keyless"
        if not keyless and asked.headers.get("authorization") != f"Bearer {KEY}":
            return self.faults["401"]
        if asked.method != "POST" or asked.path not in ("/search", "/extract"):
            return answer_json({"detail": "Not Found"}, 404)
        body = json.loads(asked.body)
        return self._search(body) if asked.path == "/search" else self._extract(body)

    def _search(self, body: dict[str, Any]) -> Answer:
        """Documents that share a word with the query, at most `max_results`; "echo" gives back what was sent."""
        query = str(body["query"])
        words = set(query.casefold().split())
        found = [each for each in DOCUMENTS if words & set(f"{each['title']} {each['content']}".casefold().split())]
        if "echo" in words:
            found = [{"title": f"\ud800 {KEY}", "url": "https://echo.example.org/", "content": f"key={KEY}\x00"}]
        results = [{**each, "score": 0.9, "raw_content": None} for each in found[: int(body.get("max_results", 5))]]
        about: dict[str, Any] = {"query": query, "follow_up_questions": None, "answer": None, "images": []}
        return answer_json({**about, "results": results, "response_time": 0.5, "request_id": "r-1"})

    def _extract(self, body: dict[str, Any]) -> Answer:
        urls = body["urls"] if isinstance(body["urls"], list) else [body["urls"]]
        known = {each["url"]: each["content"] for each in DOCUMENTS}
        results = [{"url": url, "raw_content": known[url], "images": []} for url in urls if url in known]
        failed = [{"url": url, "error": "Failed to fetch url"} for url in urls if url not in known]
        return answer_json({"results": results, "failed_results": failed, "response_time": 0.1})
