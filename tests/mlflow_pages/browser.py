"""A real Chromium on MLflow's pages, as a person has it who has closed the assistant and the tips.

with browser() as page:
    see(page, f"{server.url}/#/experiments/1/evaluation-runs", "accuracy")
    picture(page, folder, "runs")
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
WAIT_SECONDS = 60.0
_SIZE = {"width": 1600, "height": 900}
# Chromium looks for its maker's servers at every start.
_FLAGS = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
_MORE_FLAGS = ("--disable-component-update", "--disable-sync")
_PANES_CLOSED = (
    "localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false');"
    "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true');"
)


def why_not() -> str:
    """In one line, why there can be no browser here; empty if there can."""
    if not CHROMIUM.exists():
        return "no Chromium (apt-get install chromium)"
    return "" if find_spec("playwright") else "no driver for Chromium (pip install playwright)"


@contextmanager
def browser() -> Iterator[Any]:
    """A page that can reach this machine only."""
    from playwright.sync_api import sync_playwright

    flags = [*_FLAGS, *_MORE_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        page = chromium.new_page(viewport=_SIZE)
        page.set_default_timeout(WAIT_SECONDS * 1000)
        page.add_init_script(_PANES_CLOSED)
        page.route(lambda url: not url.startswith(("http://127.0.0.1", "data:", "blob:")), lambda route: route.abort())
        try:
            yield page
        finally:
            chromium.close()


def see(page: Any, url: str | None, *texts: str) -> str:
    """Open the page (None: stay), wait until it shows these texts; all of its text."""
    if url:
        page.goto(url)
    for text in texts:
        page.wait_for_function("text => document.body.innerText.includes(text)", arg=text)
    page.wait_for_timeout(1500)  # what arrives late: charts, numbers above the columns
    close_tips(page)
    return str(page.inner_text("body"))


def close_tips(page: Any) -> None:
    if (tip := page.get_by_role("button", name="Got it")).count():
        tip.first.click()


def picture(page: Any, folder: Path, name: str) -> Path:
    path = folder / f"{name}.png"
    page.screenshot(path=str(path))
    return path
