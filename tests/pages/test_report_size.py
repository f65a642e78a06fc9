"""Size of `report.html` with very many answers; time to open it: docs/explanation/performance.md."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.eval.command_line import EvalCommand
from tests.pages.browser import browser, collect_errors, open_file, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]
MAX_BYTES, MAX_MEMORY_MB = 10_000_000, 150


def write_page(folder: Path, page: Path, n_questions: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.pages.many_answers", str(folder), str(page), str(n_questions), "1"]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def test_very_many_answers_are_a_small_page_that_opens(eval_command: EvalCommand, tmp_path: Path) -> None:
    folder = eval_command("experiment=offline").folder
    path = tmp_path / "many.html"
    for n_questions, all_fit in ((300, True), (3_500, False)):
        figures = write_page(folder, path, n_questions)
        assert figures["bytes"] < MAX_BYTES
        assert figures["memory_mb"] < MAX_MEMORY_MB
        assert ("There was no room for the" not in path.read_text("utf-8")) == all_fit, "what does not fit is said"
    with browser(width=1440) as page:
        errors = collect_errors(page)
        open_file(page, path)
        page.click("details.row summary")
        page.wait_for_selector("details.row .pair")
        assert errors == []
