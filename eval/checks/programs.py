"""Programs beside Python that tools may use. A run goes on without them, so nothing here is `missing`."""

import shutil

from eval.checks.finding import OK, WARNING, Finding

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser() -> Finding:
    if found := next(filter(None, map(shutil.which, BROWSERS)), None):
        return Finding("browser", OK, found)
    return Finding("browser", WARNING, "no Chromium or Chrome: `make browser` needs one", "apt-get install chromium")


def ocr() -> Finding:
    if found := shutil.which("tesseract"):
        return Finding("ocr", OK, found)
    return Finding("ocr", WARNING, "no tesseract: text in images is not read", "apt-get install tesseract-ocr")
