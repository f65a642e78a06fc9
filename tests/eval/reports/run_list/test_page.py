"""The page of all runs: its columns, rows, tiles and links, as its script reads them."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval.analysis.run_list.read_runs import STOPPED, TUNING, FoundRuns, RunEntry
from eval.reports.run_list.page import Links, render_index, write_index
from tests.eval.reports.run_list.test_table import RUN


def read_data(html: str) -> Any:
    found = re.search(r'data-rows="runs">\s*<script type="application/json" class="data">(.*?)</script>', html, re.S)
    assert found is not None
    return json.loads(found[1])


def read_rows(html: str) -> list[dict[str, Any]]:
    data = read_data(html)
    return [dict(zip(data["keys"], row, strict=True)) for row in data["rows"]]


def read_tiles(html: str) -> list[tuple[str, ...]]:
    return re.findall(r'<div class="tile"><span>(.*?)</span><strong>(.*?)</strong>(.*?)</div>', html)


def render(*runs: RunEntry, pages: tuple[Path, ...] = ()) -> str:
    links = Links(lambda run: f"to {run.name}", lambda page: f"at {page.name}")
    return render_index(FoundRuns(list(runs), list(pages)), Path(), links)[0]


def test_each_column_is_drawn_searched_filtered_and_exported_as_it_should_be() -> None:
    columns = read_data(render(RUN))["columns"]
    assert [each["key"] for each in columns if each["kind"] != "hidden"] == [
        "name", "state", "score", "made_of", "cost_usd", "began", "bytes"
    ]  # fmt: skip
    assert [each["key"] for each in columns if each["menu"]] == [
        "state", "kind", "system", "model", "data", "prompts"
    ]  # fmt: skip
    assert [each["key"] for each in columns if each["find"]] == [
        "name", "state", "made_of", "began", "kind", "system", "model", "data", "prompts", "reason"
    ]  # fmt: skip
    assert [each["key"] for each in columns if not each["export"]] == ["result", "cost", "size", "href"]
    assert {each["key"]: each["kind"] for each in columns[:7]} == {
        "name": "text", "state": "text", "score": "text", "made_of": "text", "cost_usd": "usd", "began": "text",
        "bytes": "number",
    }  # fmt: skip
    assert read_data(render())["noun"] == "run"


def test_a_row_has_all_that_is_known_of_its_run() -> None:
    (row,) = read_rows(render(replace(RUN, reason="it stopped", simulated=True)))
    assert row == {
        "id": "a/run-1", "name": "run-1", "state": "complete", "score": 0.5,
        "made_of": "gaia · m (simulated) · own · prompts mine", "cost_usd": 0.5, "began": "2026-01-02 01:04",
        "bytes": 1_500, "kind": "evaluation", "system": "gaia", "model": "m (simulated)", "data": "own",
        "prompts": "mine", "reason": "it stopped", "low": 0.25, "high": 0.75, "n": 1_000, "seconds": 12.0,
        "result": "50.0% (25.0% to 75.0%), n = 1,000", "cost": "nothing", "size": "1.5 KB", "href": "to run-1",
    }  # fmt: skip


def test_a_tuning_run_shows_its_gain_and_a_run_without_a_score_no_number_of_answers() -> None:
    tuning = replace(RUN, kind=TUNING, gain=0.0, gain_ci95=(-0.125, 0.25), prompts="", data="")
    (gain, unscored, bare) = read_rows(
        render(tuning, replace(RUN, score=None, score_ci95=None, n_answered=3), replace(RUN, n=None))
    )
    assert (gain["score"], gain["low"], gain["high"]) == (0.0, -0.125, 0.25)
    assert (gain["result"], gain["made_of"]) == ("+0.0 points (-12.5 to +25.0), n = 1,000", "gaia · m")
    assert (unscored["result"], unscored["low"], unscored["high"]) == ("3 of 1,000 answered", None, None)
    assert bare["result"] == "50.0% (25.0% to 75.0%)"


def test_the_tiles_count_the_runs_by_state_and_their_bytes() -> None:
    html = render(RUN, RUN, replace(RUN, state=STOPPED, size_bytes=500))
    assert read_tiles(html) == [
        ("runs", "3", ""), ("complete", "2", ""), ("stopped", "1", ""), ("on the disk", "3.5 KB", "")
    ]  # fmt: skip
    assert "of these runs" not in html
    noted = render(replace(RUN, simulated=True), replace(RUN, no_measurement="a part"), replace(RUN, simulated=True))
    assert "2 of these runs had a simulated model" in noted and "1 of these runs is no measurement" in noted


def test_runs_and_pages_are_linked_from_where_the_page_is(tmp_path: Path) -> None:
    report = tmp_path / "a b" / "x:y" / "report.html"
    runs = [replace(RUN, folder=report.parent, report=report), replace(RUN, folder=tmp_path / "c")]
    pages = [tmp_path / "compared" / "1?2.html", tmp_path / "index.html"]
    write_index(tmp_path / "index.html", FoundRuns(runs, pages))
    html = (tmp_path / "index.html").read_text("utf-8")
    assert [(row["id"], row["href"]) for row in read_rows(html)] == [
        ("a b/x:y", "./a%20b/x%3Ay/report.html"),
        ("c", ""),
    ]
    assert re.findall(r'<li><a href="(.*?)">(.*?)</a></li>', html) == [("./compared/1%3F2.html", "compared/1?2.html")]
    assert [each.name for each in tmp_path.iterdir()] == ["index.html"], "the page itself is none of the others"


def test_what_turns_text_around_is_spelt_out_and_other_pages_have_a_heading() -> None:
    assert r"\u202e" in render(replace(RUN, model="a\u202eb")) and "\u202e" not in render(
        replace(RUN, model="a\u202eb")
    )
    assert "Comparisons and other pages" not in render(RUN)
    assert '<li><a href="at x.html">x.html</a></li>' in render(RUN, pages=(Path("x.html"),))
