"""The page of a tuning run in a real Chromium: at every width, and with hostile texts; other ends: by its data.

The pictures are in pytest's folder of the test; PAGE_PICTURES=docs/images replaces those of the documentation.
"""

from pathlib import Path
from typing import Any

import pytest

from optimize.reports.tuning_page import write_tuning_page
from tests.command import keep_result, tuning_command
from tests.optimize.mlflow_export.tuning_folder import a_proposal, a_tuning, verdict
from tests.pages.browser import check_accessibility, collect_errors, find_pictures, open_file, small_picture, visit
from tests.pages.hostile_run import ATTACKS

pytestmark = pytest.mark.slow


def open_all(page: Any) -> None:
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.wait_for_timeout(500)


def test_the_page_says_first_whether_the_prompts_are_better(page: Any, tmp_path: Path) -> None:
    given = ("system=toy", "data=toy", "model=offline", "data.n_test=120", "gate.epochs=2")
    tuned = tuning_command(tmp_path / "runs", *given)
    path = tuned.folder / "report.html"
    errors = collect_errors(page)
    pictures = find_pictures(tmp_path)
    for view in visit(page, path, tmp_path, "tuning", height=1300):
        assert page.inner_text(".outcome .label") == "PUBLISHED"
        assert page.locator(".outcome").bounding_box()["y"] < 300, "before anything else"
        if view == (1440, "light"):
            small_picture(page, pictures, "tuning")
            page.evaluate("document.querySelector('.tree').scrollIntoView()")
            small_picture(page, pictures, "tuning-candidates")
    open_all(page)
    assert check_accessibility(page) == []
    assert path.stat().st_size < 2_000_000
    assert errors == []


def test_texts_of_a_foreign_run_execute_nothing(page: Any, tmp_path: Path) -> None:
    proposals = [
        a_proposal(number, "accepted" if number % 2 else "rejected", reason=text, agents=[text], origin=text)
        for number, text in enumerate(ATTACKS, start=1)
    ]
    hit = {"kind": ATTACKS[0], "split": ATTACKS[1], "agent": ATTACKS[2], "place": ATTACKS[3]}
    fresh = [{"candidate_id": text, "val_score": 0.5, "fresh_score": 0.5, "fresh_ci95": [0.4, 0.6]} for text in ATTACKS]
    evil = " ".join(ATTACKS)
    found = verdict(False, reasons=list(ATTACKS), metric=evil, set=evil, finish_reason=evil)
    facts = {"name": evil, "model": evil, "prompts_name": evil, "command": [evil]}
    folder = a_tuning(tmp_path / "run", proposals, verdict=found, shortlist=fresh, **facts)  # type: ignore[arg-type]
    leak = {"blocked": True, "checked": {"val": 1}, "hits": [{**hit, "sample_id": evil}]}
    keep_result(folder, "leaks", {evil: leak})
    errors = collect_errors(page)
    open_file(page, write_tuning_page(folder))
    open_all(page)
    assert page.locator("img, iframe, main script:not([type])").count() == 0
    assert errors == []
