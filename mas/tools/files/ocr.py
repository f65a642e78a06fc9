"""The text in a picture, by the program tesseract where it is installed.

text_in(image)                # "The boat leaves from pier 412"; None: it cannot be read here
with reading("eng+deu"):      # `tools.files.ocr_languages`
    why_not()                 # None, or a sentence: there is no tesseract, or it has no German
"""

import functools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mas.tools.files.settings import ENGLISH

OCR_SECONDS = 60
LIST_SECONDS = 10
MAX_SIDE = 4_000  # pixels; a larger picture is made smaller first
MIN_SIDE = 1_000  # and a smaller one larger: letters of 20 to 40 pixels are read best
NOT_HERE = "cannot be read here: "  # in each sentence of why_not
MISSING = f"The text in it {NOT_HERE}the program tesseract is not installed (apt-get install tesseract-ocr)."

_languages: ContextVar[str] = ContextVar("ocr_languages", default=ENGLISH)


@contextmanager
def use_languages(languages: str) -> Iterator[None]:
    """Pictures inside are read in these languages, `eng+deu`."""
    token = _languages.set(languages)
    try:
        yield
    finally:
        _languages.reset(token)


def is_installed() -> bool:
    return shutil.which("tesseract") is not None


def explain_missing() -> str | None:
    """Why no text can be read, in a sentence; None: it can."""
    return explain_missing_languages(_languages.get()) if is_installed() else MISSING


def explain_missing_languages(languages: str) -> str | None:
    """Languages that the installed tesseract lacks, in a sentence; None: it has them all."""
    there = list_installed_languages()
    absent = [each for each in languages.split("+") if each not in there]
    if not absent or not there:  # where it does not tell, it is tried
        return None
    packages = " ".join(f"tesseract-ocr-{each.rpartition('/')[2].lower().replace('_', '-')}" for each in absent)
    return (
        f"The text in it {NOT_HERE}tesseract does not have {', '.join(absent)}, which "
        f"tools.files.ocr_languages={languages} asks for; it has {', '.join(there)} "
        f"(apt-get install {packages})."
    )


@functools.cache
def list_installed_languages() -> tuple[str, ...]:
    """In tesseract's codes; none if it does not tell."""
    try:
        listed = subprocess.run(
            ["tesseract", "--list-langs"], capture_output=True, text=True, timeout=LIST_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ()
    return tuple(line.strip() for line in listed.stdout.splitlines()[1:] if line.strip())


def read_text(image: Any) -> str | None:
    """`image`: of Pillow.

    Raises:
        RuntimeError: tesseract failed or took too long.
    """
    if explain_missing():
        return None
    import pytesseract  # type: ignore[import-untyped]

    found: str = pytesseract.image_to_string(_sized(image), lang=_languages.get(), timeout=OCR_SECONDS)
    return found.strip().replace("\x0c", "\n")


def _sized(image: Any) -> Any:
    """On white, in grey, of a size at which letters are read."""
    from PIL import Image

    rgba = image.convert("RGBA")
    flat = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("L")
    longer = max(flat.size)
    scale = min(MAX_SIDE / longer, 1) if longer > MIN_SIDE else min(2, MIN_SIDE / longer)
    return flat.resize((max(1, round(flat.width * scale)), max(1, round(flat.height * scale))))
