"""The text in a picture, by the program tesseract where it is installed.

text_in(image)      # "The boat leaves from pier 412"; None: there is no tesseract
"""

import shutil
from typing import Any

OCR_SECONDS = 60
MAX_SIDE = 4_000  # pixels; a larger picture is made smaller first
MIN_SIDE = 1_000  # and a smaller one larger: letters of 20 to 40 pixels are read best
MISSING = "The text in it cannot be read here: the program tesseract is not installed (apt-get install tesseract-ocr)."


def is_installed() -> bool:
    return shutil.which("tesseract") is not None


def text_in(image: Any) -> str | None:
    """`image`: of Pillow.

    Raises:
        RuntimeError: tesseract failed or took too long.
    """
    if not is_installed():
        return None
    import pytesseract  # type: ignore[import-untyped]

    found: str = pytesseract.image_to_string(_sized(image), timeout=OCR_SECONDS)
    return found.strip().replace("\x0c", "\n")


def _sized(image: Any) -> Any:
    """On white, in grey, of a size at which letters are read."""
    from PIL import Image

    rgba = image.convert("RGBA")
    flat = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("L")
    longer = max(flat.size)
    scale = min(MAX_SIDE / longer, 1) if longer > MIN_SIDE else min(2, MIN_SIDE / longer)
    return flat.resize((max(1, round(flat.width * scale)), max(1, round(flat.height * scale))))
