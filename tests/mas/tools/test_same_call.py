"""Which calls are the same call: what a kept result is found by. Over the real agent loop."""

import os
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.trace import Span
from mas.tools.attachments import use_attachments
from mas.tools.browser.settings import BrowserSettings
from mas.tools.http.settings import WebSettings
from mas.tools.read_file import read_file
from mas.tools.read_only import mark_read_only
from tests.mas.tools.test_read_only import Counter, Kept, run
from tests.scripted_model import Call


def test_two_tools_that_agents_know_by_the_same_name_are_not_taken_for_one_another() -> None:
    """Such as `wiki: wikipedia_search` in one run's configuration, and `wiki: wikipedia_page` in another's."""

    @mark_read_only
    def search(query: str) -> str:
        """Look something up."""
        return f"pages about {query}"

    @mark_read_only
    def page(query: str) -> str:
        """Look something up."""
        return f"the page {query}"

    log, told = Kept(), list[list[str]]()
    for tool in (search, page):
        tool.__name__ = "wiki"
        told.append(run(SampleContext(SampleKey("q"), tool_log=log), Call("wiki", {"query": "K2"}), tools=[tool])[0])
    assert told == [["pages about K2"], ["the page K2"]]


def replayed(spans: list[Span]) -> list[bool]:
    return [span.attributes.get("replayed", False) for span in spans]


def test_the_same_name_with_another_content_is_another_file(tmp_path: Path) -> None:
    log, call = Kept(), Call("read_file", {"file": "towns.csv"})
    for folder, town in (("a", "Rome"), ("b", "Oslo"), ("c", "Rome")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "towns.csv").write_text(f"town\n{town}\n")
    found = []
    for files in (["a/towns.csv"], ["b/towns.csv"], ["c/towns.csv"], ["a/towns.csv"], []):
        with use_attachments([tmp_path / each for each in files]):
            found.append(run(SampleContext(SampleKey("q"), tool_log=log), call, tools=[read_file]))
    assert [("Rome" in shown, "Oslo" in shown) for (shown,), _ in found] == [
        (True, False), (False, True), (True, False), (True, False), (False, False)
    ]  # fmt: skip
    assert [replayed(spans) for _, spans in found] == [[False], [False], [True], [True], [False]]


def test_a_file_that_changes_between_two_calls_is_read_again(tmp_path: Path) -> None:
    log, call, file = Kept(), Call("read_file", {"file": "towns.csv"}), tmp_path / "towns.csv"
    for town in ("Rome", "Oslo"):
        file.write_text(f"town\n{town}\n")
        os.utime(file, ns=(0, len(log)))
        with use_attachments([file]):
            (shown,), _ = run(SampleContext(SampleKey("q"), tool_log=log), call, tools=[read_file])
        assert town in shown


def test_other_settings_of_what_is_found_are_another_call_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    counter, log = Counter(), Kept()

    def asked(**settings: Any) -> int:
        run(SampleContext(SampleKey("q"), tool_log=log), Call("look", {"up": "x"}), tools=[counter.look()], **settings)
        return counter.asked

    assert [asked(), asked()] == [1, 1]
    rates: dict[str, Any] = dict.fromkeys(("search_requests_per_minute", "youtube_requests_per_minute"), 1)
    rates["pages_per_minute_and_host"] = 1
    pace = WebSettings(**rates, max_searches_per_question=2, attempts=9, contact="a@example.org")
    assert asked(web=pace, max_output_chars=9, browser=BrowserSettings(url=None)) == 1
    assert asked(web=WebSettings(search_base_url="https://other.example.org")) == 2
    assert asked(web=WebSettings(blocked_sites=["example.org"])) == 3
    assert asked(web=WebSettings(search_results=3)) == 4
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-canary-0123")
    assert [asked(), asked()] == [5, 5], "who answers a search depends on whether there is a key"
