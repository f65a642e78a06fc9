"""Size of `report.html` with very many answers, time to open it and to filter it (docs/explanation/performance.md)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.eval.command_line import EvalCommand
from tests.pages.browser import browser, collect_errors, open_file, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]
MAX_BYTES, MAX_OPEN_SECONDS, MAX_FILTER_MS = 10_000_000, 2.0, 100
MAX_MEMORY_MB = 150
FILTER = """(text) => {
    const field = document.querySelector(".tools input");
    const start = performance.now();
    field.value = text;
    field.dispatchEvent(new Event("input"));
    document.body.offsetHeight;
    return performance.now() - start;
}"""


def write_page(folder: Path, page: Path, n_questions: int, epochs: int) -> dict[str, float]:
    arguments = [str(folder), str(page), str(n_questions), str(epochs)]
    command = [sys.executable, "-m", "tests.pages.many_answers", *arguments]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def test_very_many_answers_are_a_small_page_that_opens_and_filters_at_once(
    eval_command: EvalCommand, tmp_path: Path
) -> None:
    folder = eval_command("experiment=offline", "run.epochs=2", "tracking=off").folder
    for n_questions, epochs in ((165, 5), (1_000, 1), (10_000, 1)):
        path = tmp_path / f"{n_questions}.html"
        figures = write_page(folder, path, n_questions, epochs)
        assert figures["bytes"] < MAX_BYTES
        assert figures["memory_mb"] < MAX_MEMORY_MB
        all_fit = "There was no room for the" not in path.read_text("utf-8")
        assert all_fit == (n_questions * epochs <= 1_000), (
            "whole prompts of 1,000 answers fit, and what does not is said"
        )
        opened, filtered = measure(path)
        print(f"{n_questions} x {epochs}: {figures}, opened in {opened:.2f} s, filtered in {filtered:.0f} ms")
        assert opened < MAX_OPEN_SECONDS
        assert filtered < MAX_FILTER_MS


def measure(path: Path) -> tuple[float, float]:
    """Seconds until the rows are drawn, and the milliseconds of the slowest filter; each the best of several times."""
    seconds: list[float] = []
    with browser(width=1440) as page:
        errors = collect_errors(page)
        for _ in range(3):
            seconds.append(open_page(page, path))
        page.wait_for_timeout(1_000)
        filters = ("ropes", "file march", "zzz", "e", "")
        filtered = max(min(float(page.evaluate(FILTER, text)) for _ in range(5)) for text in filters)
        page.click("details.row summary")
        page.wait_for_selector("details.row .pair")
        assert errors == []
    return min(seconds), filtered


def open_page(page: Any, path: Path) -> float:
    open_file(page, path)
    page.wait_for_selector("details.row")
    return float(page.evaluate("performance.now()")) / 1_000
