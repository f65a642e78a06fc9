"""A real Chromium: on pages that a test has written to the disk, or that a server of the test serves.

    with browser(width=400, theme="dark") as page:
        errors = collect_errors(page)
        open_file(page, folder / "report.html")
        check_readable(page, folder, "report-400-dark")

MLflow's pages are shown as a person has them who has closed the assistant and the tips.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eval.cli.paths import PROJECT_ROOT
from tests.patience import PATIENCE_SECONDS

View = tuple[int, str]  # width, theme
CHROMIUM = Path("/usr/bin/chromium")
VIEWS = ((1440, "light"), (400, "dark"))
_AXE = Path(__file__).parent / "vendor" / "axe.min.js"
# Chromium looks for its maker's servers at every start.
_FLAGS = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
_MORE_FLAGS = ("--disable-component-update", "--disable-sync")
_PANES_CLOSED = (
    "try { localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false');"
    "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true'); } catch {}"
)
_REACHABLE = ("http://127.0.0.1", "file:", "data:", "blob:", "about:")
_SERIOUS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => [each.id, each.help, ...each.nodes.slice(0, 3).map((one) => one.html.slice(0, 150))].join(" | "))"""


def why_not() -> str:
    """In one line, why there can be no browser here; empty if there can."""
    if not CHROMIUM.exists():
        return "chromium is missing: apt-get install chromium"
    return "" if find_spec("playwright") else "playwright is missing: pip install playwright"


@contextmanager
def browser(width: int = 1600, height: int = 900, theme: str = "light") -> Iterator[Any]:
    """A page that can reach this machine only."""
    from playwright.sync_api import sync_playwright

    flags = [*_FLAGS, *_MORE_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.add_init_script(_PANES_CLOSED)
        page.route(lambda url: not url.startswith(_REACHABLE), lambda route: route.abort())
        try:
            yield page
        finally:
            chromium.close()


def set_view(page: Any, width: int, theme: str, height: int = 900) -> None:
    """Change width and theme of a page that is open."""
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(150)  # charts are drawn again


def collect_errors(page: Any) -> list[str]:
    """A list that fills with what goes wrong from now on.

    Exceptions, errors on the console (also of the page's policy), dialogs, and requests for anything but the page.
    """
    errors: list[str] = []

    def dismiss(dialog: Any) -> None:
        errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("pageerror", lambda error: errors.append(f"exception: {error}"))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("dialog", dismiss)
    page.on(
        "request",
        lambda request: (
            None if request.is_navigation_request() or request.url.startswith("blob:") else errors.append(request.url)
        ),
    )
    return errors


def open_file(page: Any, path: Path, link: str = "") -> None:
    """Open a page from the disk, with a link to a place in it, and wait until it is drawn."""
    page.goto(path.resolve().as_uri() + link)
    is_drawn = "[...document.querySelectorAll('.rows')].every((each) => each.querySelector('.list'))"
    page.wait_for_function(f"() => document.readyState === 'complete' && {is_drawn}")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def visit(
    page: Any, path: Path, folder: Path, name: str, views: Iterable[View] = VIEWS, height: int = 900
) -> Iterator[View]:
    """Open a page at each width, where it must be readable; its pictures are left in `folder`."""
    for width, theme in views:
        set_view(page, width, theme, height)
        open_file(page, path)
        check_readable(page, folder, f"{name}-{width}-{theme}")
        yield width, theme


def check_readable(page: Any, folder: Path, name: str) -> None:
    """Nothing is wider than the window, and axe-core finds nothing serious."""
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], name
    assert check_accessibility(page) == [], name
    picture(page, folder, name, whole=True)


def find_pictures(folder: Path) -> Path:
    """Return where pictures for the documentation go: PAGE_PICTURES=docs/images replaces those in it."""
    pictures = PROJECT_ROOT / os.environ.get("PAGE_PICTURES", folder / "pictures")
    pictures.mkdir(exist_ok=True)
    return pictures


def check_accessibility(page: Any) -> list[str]:
    """Serious and critical findings of axe-core."""
    page.evaluate(_AXE.read_text(encoding="utf-8") + "; null")  # as the debugger's, so that no policy forbids it
    return list(page.evaluate(_SERIOUS))


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


def picture(page: Any, folder: Path, name: str, whole: bool = False) -> Path:
    """A screenshot of what is in the window, or of the whole page."""
    path = folder / f"{name}.png"
    page.screenshot(path=str(path), full_page=whole)
    return path


def small_picture(page: Any, folder: Path, name: str) -> Path:
    """A small screenshot for the documentation: 256 colours are enough for text and charts."""
    from PIL import Image

    path = picture(page, folder, name)
    with Image.open(path) as image:
        image.convert("RGB").quantize(256).save(path, optimize=True)
    assert path.stat().st_size < 200_000
    return path
