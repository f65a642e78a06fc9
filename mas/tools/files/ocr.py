"""Optical character recognition by the program tesseract, if it is installed, in the languages that it has."""

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

OCR_SECONDS = 60
MAX_LANGUAGES = 5  # English first; with the 126 of tesseract-ocr-all no page is done in OCR_SECONDS
MAX_SIDE = 4_000  # pixels; a larger picture is scaled down first
MIN_SIDE = 1_000  # pixels; a smaller one is scaled up: letters of 20 to 40 pixels are read best
MISSING = "The text in it cannot be read here: the program tesseract is not installed (apt-get install tesseract-ocr)."


def is_installed() -> bool:
    """Return True if tesseract is installed."""
    return shutil.which("tesseract") is not None


def read_text(image: "Image.Image") -> str | None:
    """Return the text in a picture; None if it cannot be read here."""
    if not is_installed():
        return None
    import pytesseract  # type: ignore[import-untyped]

    languages = set(pytesseract.get_languages()) - {"osd", "equ"}  # of directions and formulas
    chosen = "+".join(sorted(languages, key=lambda name: (name != "eng", name))[:MAX_LANGUAGES])
    found: str = pytesseract.image_to_string(_prepare(image), lang=chosen, timeout=OCR_SECONDS)
    return found.strip().replace("\x0c", "\n")


def _prepare(image: "Image.Image") -> "Image.Image":
    """Return the picture on white, in grey, of a size at which letters are read."""
    from PIL import Image

    rgba = image.convert("RGBA")
    flat = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("L")
    longer = max(flat.size)
    scale = min(MAX_SIDE / longer, 1) if longer > MIN_SIDE else min(2, MIN_SIDE / longer)
    return flat.resize((max(1, round(flat.width * scale)), max(1, round(flat.height * scale))))
