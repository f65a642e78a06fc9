"""`report.html` in a real Chromium: what a reader does on it, what it costs, and what hostile texts do not do.

The pictures are in pytest's folder of the test; PAGE_PICTURES=docs/images replaces those of the documentation.
"""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from eval.reports.run_report.page import write_report, write_reports
from eval.runs.record import Record, Usage
from eval.runs.store import RunStore
from tests.eval.command_line import EvalCommand, dataset
from tests.eval.obedient_agent import AGENT, told
from tests.eval.reports.run_report.test_page import attribute
from tests.eval.stored_run import answered, summarise_records
from tests.pages.browser import check_readable, collect_errors, find_pictures, open_file, set_view, small_picture, visit
from tests.pages.hostile_run import ATTACKS, write_hostile_run

pytestmark = pytest.mark.slow
NAMES = {(1440, "light"): "report", (400, "dark"): "report-phone"}  # of the pictures in docs/images


def record(sample_id: str, **changes: Any) -> Record:
    fields = {"answer": "another", "gold": "SECRET-GOLD", "question": "Which?", "trajectory": [], **changes}
    return answered(sample_id, **fields)


def list_ids(page: Any) -> str:
    return "".join(row.get_attribute("data-id") for row in page.query_selector_all("details.row"))


def open_row(page: Any, sample_id: str) -> Any:
    """Open a row as a link does, and wait until it is filled."""
    page.evaluate("id => { location.hash = '#' + encodeURIComponent(id); }", sample_id)
    page.wait_for_function(
        "id => { const row = document.querySelector('details.row[open]');"
        "return row?.dataset.id === id && row.querySelector('.facts') && row.querySelector('.pair, .details p'); }",
        arg=sample_id,
    )
    return page.locator("details.row[open]")


def test_questions_are_found_filtered_sorted_and_opened(page: Any, tmp_path: Path) -> None:
    records = [
        record("a", question="How many ROPES?", score=1.0, wall_seconds=2.0, usage=Usage(lm_calls=1, input_tokens=30)),
        record("b", question="Which ropes in June?", level="2", wall_seconds=10.0, answer=f"{'x ' * 200}latest"),
        record("c", score=None, answer=None, error="down", error_class="infrastructure", wall_seconds=1.0),
    ]
    write_report(tmp_path / "report.html", summarise_records(records), records)
    errors = collect_errors(page)
    open_file(page, tmp_path / "report.html")
    assert list_ids(page) == "abc"
    page.fill(".tools input", "ropes june")
    assert (list_ids(page), page.inner_text(".found")) == ("b", "1 of 3 shown")
    page.fill(".tools input", "")
    for verdict, found in (("=not right", "bc"), ("=error", "c"), ("=right", "a"), ("", "abc")):
        page.select_option("select[aria-label=verdict]", verdict)
        assert list_ids(page) == found
    page.click("a:text('show them')")
    page.wait_for_function("() => document.querySelector('.found').textContent === '1 of 3 shown'")
    assert page.input_value("select[aria-label=error]") == "=infrastructure"
    page.select_option("select[aria-label=error]", "")
    page.select_option("select[aria-label=level]", "=2")
    assert list_ids(page) == "b"
    page.select_option("select[aria-label=level]", "")
    for order in ("cab", "bac"):
        page.click(".head button:text('time')")
        assert list_ids(page) == order
    row = open_row(page, "b")
    assert row.locator(".pair").inner_text().splitlines()[:2] == ["gold answer", "SECRET-GOLD"]
    assert "latest" in row.inner_text()
    assert page.url.endswith("#b")
    assert errors == []


HOST = """<!doctype html><meta charset="utf-8">
<iframe sandbox="allow-scripts" style="width: 1000px; height: 700px"></iframe>
<script>fetch("report.html").then((reply) => reply.text()).then((text) => {
    document.querySelector("iframe").src = URL.createObjectURL(new Blob([text], { type: "text/html" }));
});</script>"""


def test_the_report_works_in_a_frame_without_an_address_as_mlflow_shows_it(page: Any, tmp_path: Path) -> None:
    records = [record("a", score=1.0), record("b"), record("c", score=None, answer=None, error="x", error_class="tool")]
    write_report(tmp_path / "report.html", summarise_records(records, attribution=attribute(records)), records)
    (tmp_path / "host.html").write_text(HOST)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            errors = collect_errors(page)
            page.goto(f"http://127.0.0.1:{server.server_port}/host.html")
            frame = page.frame_locator("iframe")
            frame.locator("details.row summary").first.click()
            frame.locator("details.row .pair").wait_for()
            frame.locator(".bars > a").first.click()
            frame.locator(".found:text('1 of 3 shown')").wait_for()
            frame.locator("select[aria-label='lost at']").select_option("")
            frame.locator("a:text('show them')").click()
            frame.locator(".found:text('1 of 3 shown')").wait_for()
            assert [each for each in errors if not each.endswith("/report.html")] == []
        finally:
            server.shutdown()
            thread.join()


def test_hostile_texts_execute_nothing(page: Any, tmp_path: Path) -> None:
    folder = write_hostile_run(tmp_path / "run", epochs=2)
    with RunStore(folder / "run.db", read_only=True) as store:
        write_reports(folder, store)
    errors = collect_errors(page)
    open_file(page, folder / "report.html")
    ids = [row.get_attribute("data-id") for row in page.query_selector_all("details.row")]
    assert len(ids) == 2 * len(ATTACKS)
    for sample_id in ids:
        closed = open_row(page, sample_id).locator("details:not([open]) > summary")
        while closed.count():
            closed.first.click()
    closed = page.locator("main > details:not([open]) > summary")
    while closed.count():
        closed.first.click()
    for menu in page.locator(".tools select").all():
        menu.select_option(index=1)
        menu.select_option(index=0)
    page.fill(".tools input", "")
    foreign = "img, iframe, object, embed, link, [onerror], [onload], a:not([href^='#'])"
    assert page.evaluate(f'document.querySelectorAll("{foreign}").length') == 0
    assert page.evaluate("document.querySelectorAll('body script:not([type])').length") == page.evaluate(
        "document.querySelectorAll('body > script').length"
    )
    assert errors == []


def test_the_report_is_readable_at_every_width_in_both_themes(
    eval_command: EvalCommand, page: Any, tmp_path: Path
) -> None:
    report = eval_command(
        "experiment=offline", "limit=30", "run.epochs=2", "run.name=report", "tracking=off"
    ).write_report()
    errors = collect_errors(page)
    open_file(page, report)
    wrong = page.evaluate("document.querySelector('details.row:has(.mark.wrong)').dataset.id")
    pictures = find_pictures(tmp_path)
    for width, theme in visit(page, report, tmp_path, "report", height=1300):
        if (name := NAMES.get((width, theme))) is not None:
            small_picture(page, pictures, name)
        open_row(page, wrong)
        check_readable(page, tmp_path, f"answer-{width}-{theme}")
        if name is not None:
            small_picture(page, pictures, f"{name}-answer")
    set_view(page, 1440, "light", height=1300)
    open_file(page, report)
    text = page.inner_text("main")
    assert "Points lost of 100" in text and "critic_expert: it rejects in " in text
    orders = ("say 7", "say 8", "fail down", "say 7", "say seven", "say 7")
    own = dataset(tmp_path / "data", *(told(f"q{n}", f"sleep 0 {order}") for n, order in enumerate(orders)))
    views = {"bos": (1000, "light"), "own": (400, "dark")}
    others = {"bos": ("system=bos", "data=bos_sample", "model=offline", "limit=12"), "own": (*AGENT, *own)}
    for name, options in others.items():
        report = eval_command(*options, f"run.name={name}", "tracking=off").write_report()
        for width, _ in visit(page, report, tmp_path, name, (views[name],), 1300):
            page.locator("details.row summary").first.click()
            page.locator("details.row .facts").first.wait_for()
            check_readable(page, tmp_path, f"{name}-{width}-opened")
    assert errors == []
