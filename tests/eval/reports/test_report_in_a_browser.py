"""What the script of `report.html` does, in a real Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.reports.html_report import write_report
from eval.runs.record import Record, Usage
from tests.pages.browser import browser, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]


def test_questions_are_found_filtered_sorted_and_opened(tmp_path: Path, record: Callable[..., Record]) -> None:
    records = [
        record("a", question="How many ROPES?", score=1.0, wall_seconds=2.0, usage=Usage(lm_calls=1, input_tokens=30)),
        record("b", question="Which ropes in June?", level="2", wall_seconds=10.0, answer=f"{'x ' * 200}latest"),
        record("c", score=None, answer=None, error="down", error_class="infrastructure", wall_seconds=1.0),
    ]
    write_report(tmp_path / "report.html", summarise(records, RunDetails(run_id="r")), records)
    with browser() as page:
        page.set_content((tmp_path / "report.html").read_text("utf-8"))

        def seen() -> str:
            rows = page.query_selector_all(".question")
            return "".join(row.get_attribute("data-id") for row in rows if row.is_visible())

        assert seen() == "abc"
        page.fill(".tools .text", "ropes june")
        assert (seen(), page.inner_text(".found")) == ("b", "1 of 3 shown")
        page.fill(".tools .text", "latest")
        assert seen() == "b", "the row itself shows only the beginning of the answer"
        page.fill(".tools .text", "secret-gold")
        assert seen() == ""
        page.fill(".tools .text", "")
        for mark, found in (("not-right", "bc"), ("error", "c"), ("right", "a"), ("", "abc")):
            page.select_option(".tools .mark", mark)
            assert seen() == found
        page.select_option(".tools .level", label="level 2")
        assert seen() == "b"
        page.select_option(".tools .level", label="all levels")
        for order in ("cab", "bac"):
            page.click("[data-sort=seconds] button")
            assert seen() == order
        page.click("[data-sort=tokens] button")
        assert seen()[-1] == "a"
        page.focus(".question summary")
        page.keyboard.press("Enter")
        assert page.locator(".question[open]").count() == 1
        page.click(".tools .all")
        assert page.locator(".question[open]").count() == 3


def test_numbered_questions_are_sorted_as_numbers(tmp_path: Path, record: Callable[..., Record]) -> None:
    records = [record(str(number)) for number in range(12)]
    write_report(tmp_path / "report.html", summarise(records, RunDetails(run_id="r")), records)
    with browser() as page:
        page.set_content((tmp_path / "report.html").read_text("utf-8"))
        page.click("[data-sort=id] button")
        ids = [row.get_attribute("data-id") for row in page.query_selector_all(".question")]
    assert ids == [str(number) for number in range(12)]
