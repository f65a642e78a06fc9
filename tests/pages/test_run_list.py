"""The index of all runs in a real Chromium: filters, links to the pages, every width, and hostile names.

The pictures are in pytest's folder of the test; PAGE_PICTURES=docs/images replaces that of the documentation.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from eval.analysis.run_list.read_runs import RunEntry, read_runs
from eval.reports.run_list.page import render_index
from tests.eval.analysis.run_list.test_read_runs import finished, tuning
from tests.eval.stored_run import SESSION, answered, stored_run
from tests.pages.browser import collect_errors, find_pictures, open_file, set_view, small_picture, visit
from tests.pages.hostile_run import ATTACKS

pytestmark = pytest.mark.slow
NUMBERS = {"gain": 0.082, "gain_ci95": [0.021, 0.143], "winner": {"score": 0.6}, "sealed": {"n_questions": 53}}
PUBLISHED = {"published": True, "finish_reason": "improved", "set": "prompts/tuned", **NUMBERS}


def make_name(text: str) -> str:
    return text.replace("/", "|")


def write_index(place: Path, runs: list[RunEntry]) -> Path:
    """Write the viewer's page to the disk, with links to the runs' own pages."""
    page, _ = render_index(runs, place, lambda run: f"./{quote(str(run.folder.relative_to(place)))}/report.html")
    (place / "index.html").write_text(page, encoding="utf-8")
    return place / "index.html"


def make_outputs(place: Path) -> Path:
    """Runs in every state, and the page of all."""
    for number in range(6):
        began = [{**SESSION, "started_at": f"2026-11-{number + 10}T08:00:00+00:00"}]
        model = "gpt-4o" if number % 2 else "gpt-4o-mini"
        finished(place / "eval" / f"2026-11-{number + 10}_08-00-00_night", model=model, sessions=began)
    killed = [{**SESSION, "ended_at": None}]
    facts = {"system": "gaia", "model": "gpt-4o", "finished": False}
    day = place / "eval" / "2026-11-20_08-00-00_day"
    stored_run(day, [answered("q1", "17")], ["q1", "q2"], sessions=killed, **facts)  # type: ignore[arg-type]
    other = place / "eval" / "2026-11-19_08-00-00_theirs"
    other.mkdir()
    (other / "run.db").symlink_to("/etc/passwd")
    os.utime(other, (datetime(2026, 11, 19, 8, tzinfo=UTC).timestamp(),) * 2)
    tuning(place / "optimize" / "2026-11-21_08-00-00_tuned_gepa", PUBLISHED)
    refused = {**PUBLISHED, "published": False, "finish_reason": "not_significant"}
    tuning(place / "optimize" / "2026-11-21_09-00-00_more_gepa", refused)
    tuning(place / "optimize" / "2026-11-21_10-00-00_late_gepa", stopped="interrupted by Ctrl-C")
    return write_index(place, read_runs([place]))


def test_the_index_is_read_filtered_and_leads_to_every_page(page: Any, tmp_path: Path) -> None:
    path = make_outputs(tmp_path / "outputs")
    errors = collect_errors(page)
    for view in visit(page, path, tmp_path, "runs"):
        if view == (1440, "light"):
            small_picture(page, find_pictures(tmp_path), "runs")
    set_view(page, 1440, "light")
    page.fill(".tools input", "crashed")
    assert page.inner_text(".found") == "1 of 11 shown", "what is to be seen in a row is found"
    page.fill(".tools input", "")
    page.select_option("select[aria-label=model]", "=gpt-4o")
    page.select_option("select[aria-label=state]", "=complete")
    assert page.inner_text(".found") == "3 of 11 shown"
    page.keyboard.press("Tab")
    page.locator("a.row").first.click()
    page.wait_for_url("**/2026-11-15_08-00-00_night/report.html")
    assert errors == []


def test_names_of_others_execute_nothing(page: Any, tmp_path: Path) -> None:
    runs = [
        RunEntry(
            folder=tmp_path / make_name(text),
            kind="evaluation",
            state="stopped",
            **dict.fromkeys(("reason", "system", "model", "data", "prompts", "metric", "started_at"), text),  # type: ignore[arg-type]
            score=0.5,
        )
        for text in ATTACKS
    ]
    write_index(tmp_path, runs)
    errors = collect_errors(page)
    open_file(page, tmp_path / "index.html")
    assert page.locator("a.row").count() == len(ATTACKS)
    links = page.evaluate("[...document.querySelectorAll('a')].map((each) => each.protocol)")
    assert set(links) == {"file:"}
    assert page.locator("main img, main iframe").count() == 0
    assert errors == []
