"""Programs that a test needs and a bare machine lacks: such a test is skipped, and the end of the output counts them.

@needs("tesseract")                   # a mark
skip_without("bubblewrap")            # within a test or fixture
"""

import functools
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from mas.tools.files.readers import converted
from mas.tools.files.readers.media import has_tesseract
from mas.tools.sandbox.repl import try_isolations

INSTALL = {
    "bubblewrap": "apt-get install bubblewrap",
    "faketime": "apt-get install faketime",
    "git": "apt-get install git",
    "libreoffice": "apt-get install libreoffice-writer libreoffice-calc libreoffice-impress",
    "make": "apt-get install make",
    "procps": "apt-get install procps",
    "root": "run as root, who may mount a disk",
    "tesseract": "apt-get install tesseract-ocr",
}
_MISSING = re.compile(r"(?:Skipped: )?([\w +-]+) is missing\b")


def _is_found(program: str) -> Callable[[], bool]:
    return lambda: shutil.which(program) is not None


_IS_THERE: dict[str, Callable[[], bool]] = {
    "bubblewrap": lambda: try_isolations("bubblewrap")[0] is not None,
    "libreoffice": converted.is_installed,
    "procps": _is_found("pgrep"),
    "root": lambda: os.geteuid() == 0 and shutil.which("mount") is not None,
    "tesseract": has_tesseract,
}


@functools.cache
def find_missing(package: str) -> str:
    """Return why a test that needs the package is skipped; empty if it is there."""
    is_there = _IS_THERE.get(package, _is_found(package))
    return "" if is_there() else f"{package} is missing: {INSTALL[package]}"


def needs(package: str) -> pytest.MarkDecorator:
    reason = find_missing(package)
    return pytest.mark.skipif(bool(reason), reason=reason or package)


def skip_without(package: str) -> None:
    if reason := find_missing(package):
        pytest.skip(reason)


def count_missing(reasons: Iterable[str]) -> Counter[str]:
    """Return the numbers of skipped tests by package."""
    return Counter(found[1] for reason in reasons if (found := _MISSING.match(reason)))
