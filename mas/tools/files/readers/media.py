"""Readers of pictures (size, text by OCR) and of sounds, which models hear: mas/agents/media.py.

Optical character recognition is done by the program tesseract, if it is installed, in the languages that it has.
"""

import shutil
import warnings

from PIL import Image

from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import split_lines
from mas.tools.results import ToolError

MAX_PIXELS = 50_000_000  # 200 MB once unpacked
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")  # some of Pillow's other readers run programs
OCR_SECONDS = 60
MAX_LANGUAGES = 5  # English first; with the 126 of tesseract-ocr-all no page is done in OCR_SECONDS
MAX_SIDE = 4_000  # pixels; a larger picture is scaled down first
MIN_SIDE = 1_000  # pixels; a smaller one is scaled up: letters of 20 to 40 pixels are read best
NO_TESSERACT = "The text in it cannot be read here: tesseract is not installed (apt-get install tesseract-ocr)."
CANNOT_LISTEN = "read_file does not listen to it: only a model that takes audio can say what is said or played in it."


def read_picture(source: Source) -> Document:
    with warnings.catch_warnings(action="ignore"), Image.open(source.open(), formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ToolError(
                f"{source.name} has {width} x {height} pixels; read_file opens pictures up to {MAX_PIXELS}."
            )
        frames = getattr(image, "n_frames", 1)
        summary = f"picture, {image.format}, {width} x {height} pixels, colour mode {image.mode}"
        summary += f", {frames} frames of which the first is read" if frames > 1 else ""
        image.load()
        text = recognize_text(image)
    if text is None:
        return Document(summary, [Part([])], [NO_TESSERACT])
    note = (
        "What follows is the text that OCR found in it; letters may be misread, shapes and colours are not described."
    )
    return Document(summary, [Part(split_lines(text))], [note] if text else ["OCR found no text in it."])


def has_tesseract() -> bool:
    return shutil.which("tesseract") is not None


def recognize_text(image: Image.Image) -> str | None:
    """Return the text in a picture; None if it cannot be read here."""
    if not has_tesseract():
        return None
    import pytesseract  # type: ignore[import-untyped]

    languages = set(pytesseract.get_languages()) - {"osd", "equ"}  # of directions and formulas
    chosen = "+".join(sorted(languages, key=lambda name: (name != "eng", name))[:MAX_LANGUAGES])
    rgba = image.convert("RGBA")
    grey = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("L")
    longer = max(grey.size)
    scale = min(MAX_SIDE / longer, max(1, min(2, MIN_SIDE / longer)))
    scaled = grey.resize((max(1, round(grey.width * scale)), max(1, round(grey.height * scale))))
    found: str = pytesseract.image_to_string(scaled, lang=chosen, timeout=OCR_SECONDS)
    return found.strip().replace("\x0c", "\n")


def read_sound(source: Source) -> Document:
    return Document(f"sound, {len(source.data)} bytes", [Part([Line(1, CANNOT_LISTEN)])])
