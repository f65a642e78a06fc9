"""Runs compared on a page."""

import re
from pathlib import Path

from eval.analysis.comparison.compare_runs import compare_runs
from eval.reports.comparison_page import write_comparison
from tests.eval.stored_run import answered, stored_run


def test_a_flipped_question_has_a_short_id_and_its_whole_one_beside_it(tmp_path: Path) -> None:
    long, other = "9a2928bc-e274-4345-b9e7-7b1b70414a41", "a10c702f-69e2-45e9-9c5d-46524d8a93eb"
    first = stored_run(tmp_path / "a", [answered(long, "17"), answered(other, "17")])
    second = stored_run(tmp_path / "b", [answered(long, "121922.54"), answered(other, "18")])
    write_comparison(tmp_path / "page.html", compare_runs([first, second], intersection=False))
    html = (tmp_path / "page.html").read_text("utf-8")
    assert f'<td title="{long}">9a2928bc</td>' in html
    assert "✗ 121922.54" in html
    assert not re.search(r"\btd\b[^{]*\{[^}]*overflow-wrap: anywhere", html)  # it breaks numbers in two
