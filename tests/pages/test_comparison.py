"""The comparison page in a real Chromium: two runs, a matrix, hostile texts, many questions.

The pictures are in pytest's folder of the test; PAGE_PICTURES=docs/images replaces those of the documentation.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.compare_runs import compare_read_runs, read_runs
from eval.reports.run_comparison.page import write_comparison
from tests.eval.command_line import EvalCommand
from tests.pages.browser import check_readable, collect_errors, find_pictures, open_file, set_view, small_picture, visit
from tests.pages.hostile_run import write_hostile_run

pytestmark = pytest.mark.slow
SWEEP = ("-m", "experiment=offline", "limit=20", "run.dir=job-${hydra:job.num}", "hydra.sweep.dir=sweep")


def write_page(path: Path, *folders: Path) -> Path:
    write_comparison(path, compare_read_runs(read_runs(folders)))
    return path


def test_pages_of_two_and_three_runs_are_readable_at_every_width_in_both_themes(
    page: Any, tmp_path: Path, eval_command: EvalCommand
) -> None:
    eval_command(*SWEEP, "system.agents.expert.retry_limit=5,1,2")
    folders = [Path(f"job-{number}") for number in range(3)]
    pictures = find_pictures(tmp_path)
    for name, path in (
        ("comparison", write_page(tmp_path / "two.html", *folders[:2])),
        ("comparison-matrix", write_page(tmp_path / "three.html", *folders)),
    ):
        errors = collect_errors(page)
        for view in visit(page, path, tmp_path, name):
            if view == (1440, "light") and name != "comparison-matrix":
                small_picture(page, pictures, name)
        page.click("details.row summary")
        page.wait_for_selector(".pair.answers")
        set_view(page, 400, "light")
        check_readable(page, tmp_path, f"{name}-opened")
        if name == "comparison":
            set_view(page, 1440, "light")
            page.evaluate("document.querySelector('details.row').scrollIntoView()")
            small_picture(page, pictures, "comparison-answer")
        assert errors == []


def test_hostile_texts_execute_nothing(page: Any, tmp_path: Path) -> None:
    folders = [write_hostile_run(tmp_path / name) for name in ("x", "y")]
    result = compare_read_runs(read_runs(folders))
    evil = "</script><img src=x onerror=alert(1)>"
    runs = [replace(each, name=evil, info=replace(each.info, model=evil)) for each in result.runs]
    write_comparison(tmp_path / "page.html", replace(result, runs=runs))
    errors = collect_errors(page)
    open_file(page, tmp_path / "page.html")
    for row in page.query_selector_all("details.row > summary")[:6]:
        row.click()
    page.wait_for_timeout(500)
    assert errors == []
    assert page.evaluate("document.querySelectorAll('img, iframe, main script:not([type])').length") == 0
