"""The base of all pages in a real Chromium: rows, keys, links."""

from pathlib import Path
from typing import Any

import pytest

from eval.reports.html.page import ROWS, STEPS, BlockWriter, Column, Rows, load_scripts, load_template
from tests.pages.browser import collect_errors, open_file, set_view

pytestmark = pytest.mark.slow
EVIL = "</script><img src=x onerror=alert(1)>'\"&<svg onload=alert(2)>"
CAUSES = ("expert", "researcher", "finalizer", "tool read_file", "format")


def write_page(path: Path, n_rows: int = 120, label: str = "") -> None:
    columns = [
        Column("question", "question", width="3fr"),
        Column("mark", "verdict", menu=True, width="90px"),
        Column("cause", "lost at", menu=True),
        Column("seconds", "time", kind="seconds", width="70px"),
        Column("note", "note", kind="hidden"),
    ]
    values = [
        {
            "id": f"q{n}",
            "question": f"Question {n} about ropes, {'long ' * (n % 40)}{label}",
            "mark": "right" if n % 3 else "wrong",
            "cause": None if n % 3 else [CAUSES[n % 5] + label],
            "seconds": (n * 37) % 101 / 10,
            "note": f"=1+{n}" if n % 2 else f"\t@note {n}",
        }
        for n in range(n_rows)
    ]
    writer = BlockWriter(1_000_000)
    for n in range(5):
        writer.add("prompts", n, {"text": f"prompt {n} {label} {'long ' * 50}"})
    template = load_template(Path(__file__).with_name("base.html.jinja"))
    page = template.render(
        scripts=load_scripts(*ROWS, *STEPS, Path(__file__).with_name("base.js")),
        blocks=writer.close(),
        tiles=[("72.7%", "accuracy", "95% interval 65.4% to 79.0%"), ("$1.23", f"cost{label}", "")],
        table=Rows("question", columns, values),
    )
    path.write_text(page, encoding="utf-8")


def list_ids(page: Any) -> list[str]:
    return [each.get_attribute("data-id") for each in page.query_selector_all("details.row")]


def list_open(page: Any) -> list[str]:
    return [each.get_attribute("data-id") for each in page.query_selector_all("details.row[open]")]


def test_rows_are_found_filtered_sorted_paged_and_linked(page: Any, tmp_path: Path) -> None:
    set_view(page, 1440, "light")
    write_page(tmp_path / "page.html")
    open_file(page, tmp_path / "page.html")
    assert len(list_ids(page)) == 50
    page.fill(".tools input", "ropes 11")
    assert list_ids(page) == ["q11", *(f"q{n}" for n in range(110, 120))]
    page.select_option("select[aria-label=verdict]", "=wrong")
    assert list_ids(page) == ["q111", "q114", "q117"]
    assert page.inner_text(".found") == "3 of 120 shown"
    page.fill(".tools input", "")
    page.select_option("select[aria-label=verdict]", "")
    page.click(".head button:text('time')")
    page.click(".head button:text('time')")
    assert list_ids(page)[0] == "q30", "the slowest"
    page.click(".pager button:text('next')")
    assert page.inner_text(".pager").split("next")[0].strip().endswith("51 to 100 of 120")
    open_file(page, tmp_path / "page.html", "#q77")
    assert list_open(page) == ["q77"]
    page.evaluate("location.hash = '#?cause=expert'")
    page.wait_for_function("() => document.querySelector('.found').textContent.startsWith('8 of')")
    page.evaluate("location.hash = '#q1'")
    page.wait_for_function("() => document.querySelector('details.row[open]')?.dataset.id === 'q1'")


def test_texts_of_rows_execute_nothing(page: Any, tmp_path: Path) -> None:
    errors = collect_errors(page)
    write_page(tmp_path / "page.html", label=EVIL)
    open_file(page, tmp_path / "page.html", "#q3")
    assert EVIL in page.inner_text("details.row[open]")
    assert page.locator("img").count() == 0
    assert errors == []


def test_ten_thousand_rows_are_filtered_at_once(page: Any, tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", n_rows=10_000)
    open_file(page, tmp_path / "page.html")
    milliseconds = page.evaluate(
        """() => ["ropes 7", "question 99", "", "long", "ropes 7", "question 99", ""].map((text) => {
            const field = document.querySelector(".tools input");
            const start = performance.now();
            field.value = text;
            field.dispatchEvent(new Event("input"));
            document.body.offsetHeight;
            return performance.now() - start;
        })"""
    )
    print("milliseconds to filter 10,000 rows:", [round(each) for each in milliseconds])
    assert min(milliseconds) < 100
