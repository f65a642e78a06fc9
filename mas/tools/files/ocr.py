"""Optical character recognition by the program tesseract, if it is installed.

read_text(image)                # "The boat leaves from pier 412"; None: it cannot be read here
with use_languages("eng+deu"):  # `tools.files.ocr_languages`
    explain_missing()           # None, or a sentence: there is no tesseract, or it has no German
"""

import functools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

from mas.runtime.security.child_environment import build_child_environment
from mas.tools.settings import ENGLISH

OCR_SECONDS = 60
LIST_SECONDS = 10
MAX_SIDE = 4_000  # pixels; a larger picture is scaled down first
MIN_SIDE = 1_000  # pixels; a smaller one is scaled up: letters of 20 to 40 pixels are read best
NOT_HERE = "cannot be read here: "  # in each sentence of `explain_missing`
MISSING = f"The text in it {NOT_HERE}the program tesseract is not installed (apt-get install tesseract-ocr)."

_languages: ContextVar[str] = ContextVar("ocr_languages", default=ENGLISH)


@contextmanager
def use_languages(languages: str) -> Iterator[None]:
    """Read pictures inside in these languages, such as `eng+deu`."""
    token = _languages.set(languages)
    try:
        yield
    finally:
        _languages.reset(token)


def is_installed() -> bool:
    """Return True if tesseract is installed."""
    return shutil.which("tesseract") is not None


def explain_missing() -> str | None:
    """Return a sentence that says why no text can be read; None if it can."""
    return explain_missing_languages(_languages.get()) if is_installed() else MISSING


def explain_missing_languages(languages: str) -> str | None:
    """Return a sentence with the languages that the installed tesseract lacks; None if it has them all."""
    there = list_installed_languages()
    absent = [each for each in languages.split("+") if each not in there]
    if not absent or not there:  # if it lists none, they are tried
        return None
    packages = " ".join(f"tesseract-ocr-{each.rpartition('/')[2].lower().replace('_', '-')}" for each in absent)
    return (
        f"The text in it {NOT_HERE}tesseract does not have {', '.join(absent)}, which "
        f"tools.files.ocr_languages={languages} asks for; it has {', '.join(there)} "
        f"(apt-get install {packages})."
    )


@functools.cache
def list_installed_languages() -> tuple[str, ...]:
    """Return the languages of tesseract in its codes; none if it does not list them."""
    try:
        listed = subprocess.run(
            ["tesseract", "--list-langs"],
            env=build_child_environment("TESSDATA_PREFIX"),
            capture_output=True,
            text=True,
            timeout=LIST_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ()
    return tuple(line.strip() for line in listed.stdout.splitlines()[1:] if line.strip())


def read_text(image: "Image.Image") -> str | None:
    """Return the text in a picture; None if it cannot be read here.

    Raises:
        RuntimeError: tesseract failed or took too long.
    """
    if explain_missing():
        return None
    import pytesseract  # type: ignore[import-untyped]

    found: str = pytesseract.image_to_string(_prepare(image), lang=_languages.get(), timeout=OCR_SECONDS)
    return found.strip().replace("\x0c", "\n")


def _prepare(image: "Image.Image") -> "Image.Image":
    """Return the picture on white, in grey, of a size at which letters are read."""
    from PIL import Image

    rgba = image.convert("RGBA")
    flat = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("L")
    longer = max(flat.size)
    scale = min(MAX_SIDE / longer, 1) if longer > MIN_SIDE else min(2, MIN_SIDE / longer)
    return flat.resize((max(1, round(flat.width * scale)), max(1, round(flat.height * scale))))
