"""Pictures of a few lines of text, and a sound.

picture_bytes("PNG", ["The boat to Velmor", "leaves from pier 412."])
"""

import io
import math
import struct
from collections.abc import Sequence

LETTER_PIXELS = 40  # high; OCR reads them without a mistake
MARGIN_PIXELS = 30
WAV_HZ = 8_000


def picture_bytes(form: str, lines: Sequence[str]) -> bytes:
    """`form`: PNG, JPEG, GIF or WEBP. Black on white, in the font that is part of Pillow."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=LETTER_PIXELS)
    width = math.ceil(max(font.getlength(line) for line in lines)) + 2 * MARGIN_PIXELS
    step = round(LETTER_PIXELS * 1.5)
    image = Image.new("L", (width, step * len(lines) + 2 * MARGIN_PIXELS), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((MARGIN_PIXELS, MARGIN_PIXELS + number * step), line, fill=0, font=font)
    written = io.BytesIO()
    (image.convert("RGB") if form == "WEBP" else image).save(written, form)
    return written.getvalue()


def wav_bytes(tones_hz: Sequence[float], seconds_each: float = 0.25, hertz: int = WAV_HZ) -> bytes:
    """One tone after another, 8 bits a sample."""
    count = round(hertz * seconds_each)
    samples = bytes(
        round(128 + 100 * math.sin(2 * math.pi * tone * place / hertz)) for tone in tones_hz for place in range(count)
    )
    form = struct.pack("<HHIIHH", 1, 1, hertz, hertz, 1, 8)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks
