"""Failed tool calls are counted by tool, those that something else stood in for included, and told with the numbers."""

import asyncio
from typing import Any

import pytest

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.execution.budget import MAX_NAME_CHARS, count_reviews, count_tool_calls
from eval.mlflow_export.run_metrics import RunNumbers
from eval.reports.notes import list_notes
from eval.runs.record import Record
from mas.runtime.trace import Trace, record_trace, span
from mas.tools.http.settings import WebSettings
from mas.tools.web.web_search import web_search
from tests.eval.mlflow_export.records import a_record
from tests.mas.tools.web.in_context import using
from tests.servers.loopback import running
from tests.servers.mediawiki import MediaWikiServer
from tests.servers.tavily import KEY, TavilyServer


def step(name: str, error: str | None = None, kind: str = "tool", events: Any = ()) -> dict[str, Any]:
    return {"kind": kind, "name": name, "error": error, "events": list(events)}


def searched(times: int, faults: list[str]) -> list[dict[str, Any]]:
    """The steps of searches, by the real clients: of the web, or of Wikipedia where the web's fails."""
    trace = Trace("t1")
    with running(TavilyServer(faults)) as web, running(MediaWikiServer()) as wiki, record_trace(trace):
        settings = WebSettings(
            search_base_url=web.base_url, wikipedia_url=wiki.api_url, contact="me@example.org", attempts=1
        )
        with using(settings):
            for _ in range(times):
                with span("tool", "web_search") as current:
                    current.attributes |= asyncio.run(web_search("varga")).describe()
    return [vars(each) for each in trace.spans]


def test_a_search_that_wikipedia_stood_in_for_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    steps = searched(3, ["432", "500"])
    assert [each["error"] for each in steps] == [None] * 3, "for its agent it is no failure"
    assert count_tool_calls(steps) == ({"web_search": 3}, {"web_search": 2})
    monkeypatch.delenv("TAVILY_API_KEY")
    assert count_tool_calls(searched(1, [])) == ({"web_search": 1}, {"web_search": 1})


def test_tools_alone_are_counted_and_a_name_is_not_as_long_as_a_model_likes() -> None:
    steps = [
        *(step("planner", "ValueError: x", kind="agent"), step("read_file"), step("read_file", "ToolError: gone")),
        *(step("calculator", events=[{"name": "blocked page"}]), step("x" * 500, "LookupError: no tool")),
    ]
    long = "x" * MAX_NAME_CHARS
    assert count_tool_calls(steps) == ({"read_file": 2, "calculator": 1, long: 1}, {"read_file": 1, long: 1})


def counted(calls: dict[str, int], errors: dict[str, int], attempt: int = 1) -> Record:
    return a_record("q1", calls_by_tool=calls, tool_errors=errors, attempt=attempt)


def test_all_attempts_are_added_up_and_told_with_the_share() -> None:
    first = counted({"web_search": 1_000, "calculator": 4}, {"web_search": 1_000})
    second = counted({"web_search": 1_000, "read_file": 3}, {"web_search": 5, "read_file": 1}, attempt=2)
    summary = summarise([first, second], RunDetails(run_id="run-1"))
    assert summary.calls_by_tool == {"web_search": 2_000, "calculator": 4, "read_file": 3}
    assert summary.tool_errors == {"web_search": 1_005, "read_file": 1}
    assert dict(list_notes(summary))["failed tool calls"] == "web_search 1,005 of 2,000, read_file 1 of 3"


def test_where_none_failed_nothing_is_said() -> None:
    summary = summarise([counted({"calculator": 2}, {})], RunDetails(run_id="run-1"))
    assert (summary.tool_errors, "failed tool calls" in dict(list_notes(summary))) == ({}, False)


@pytest.mark.parametrize(
    ("approvals", "rejected", "retried", "recovered"),
    [
        ([], 0, 0, 0),
        ([True], 0, 0, 0),
        ([False, True], 1, 1, 1),
        ([False, False, True, True], 2, 1, 1),  # one piece of work in three tries, another in one
        ([False, True, False, False], 3, 2, 1),  # the second piece was given up
        ([False, False, False], 3, 1, 0),
    ],
)
def test_reviews_are_counted_by_pieces_of_work(
    approvals: list[bool], rejected: int, retried: int, recovered: int
) -> None:
    counts = {"reviews": len(approvals), "rejected": rejected, "retried": retried, "recovered": recovered}
    assert count_reviews(approvals) == counts


def test_mlflow_is_told_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    numbers = RunNumbers()
    numbers.add(a_record("q1", trajectory=searched(2, ["401"])))
    found = numbers.build_metrics()
    assert (found["tools/web_search_calls"], found["tools/web_search_errors"]) == (2, 1)
