"""Readers of pictures (size, and the text in them by OCR) and of sounds, which models hear: mas/agents/media.py."""

import warnings

from mas.tools.files import ocr
from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import split_lines
from mas.tools.results import ToolError

MAX_PIXELS = 50_000_000  # 200 MB once unpacked
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")  # no others: some of Pillow's readers run programs


def read_picture(source: Source) -> Document:
    """Return size and text of a picture."""
    from PIL import Image

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
        text = ocr.read_text(image)
    if text is None:
        return Document(summary, [Part([])], [ocr.MISSING])
    note = (
        "What follows is the text that OCR found in it; letters may be misread, shapes and colours are not described."
    )
    return Document(summary, [Part(split_lines(text))], [note] if text else ["OCR found no text in it."])


CANNOT_LISTEN = "read_file does not listen to it: only a model that takes audio can say what is said or played in it."


def read_sound(source: Source) -> Document:
    """Return the size of a sound."""
    return Document(f"sound, {len(source.data)} bytes", [Part([Line(1, CANNOT_LISTEN)])])
