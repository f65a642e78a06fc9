"""Pictures of a few lines of text, and a sound.

picture_bytes("PNG", ["The boat to Velmor", "leaves from pier 412."])
"""

import io
import math
import struct
import wave
from collections.abc import Sequence
from random import Random

from scripts.sample_data.toy import Drawn, Family

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
    written = io.BytesIO()
    with wave.open(written, "wb") as sound:
        sound.setparams((1, 1, hertz, count, "NONE", ""))
        sound.writeframes(samples)
    return written.getvalue()


# MPEG 2 layer III, 8 kbit/s, 24,000 Hz, one channel; a frame without data in it is silence
_MP3_FRAME = b"\xff\xf3\x14\xc0" + bytes(20)


def mp3_bytes(frames: int) -> bytes:
    """Silence of `frames` times 0.024 seconds."""
    return b"ID3\x04\x00\x00\x00\x00\x00\x00" + _MP3_FRAME * frames


def m4a_bytes(milliseconds: int) -> bytes:
    mvhd = struct.pack(">I4sIIIII", 108, b"mvhd", 0, 0, 0, 1000, milliseconds) + bytes(80)
    return struct.pack(">I4s4sI", 16, b"ftyp", b"M4A ", 0) + struct.pack(">I4s", 116, b"moov") + mvhd


def wav_size(rng: Random, difficulty: int) -> Drawn:
    return _ask_size(
        "How many bytes does the attached recording have?",
        ".wav",
        wav_bytes([440, 660], hertz=rng.randint(6_000, 20_000)),
    )


def mp3_size(rng: Random, difficulty: int) -> Drawn:
    return _ask_size("What is the size of the attached sound, in bytes?", ".mp3", mp3_bytes(25 * rng.randint(20, 95)))


def m4a_size(rng: Random, difficulty: int) -> Drawn:
    size = rng.randint(300, 9_999)
    data = m4a_bytes(100 * size) + struct.pack(">I4s", 8 + size, b"free") + bytes(size)
    return _ask_size("How large is the attached voice memo, in bytes?", ".m4a", data)


def _ask_size(question: str, suffix: str, data: bytes) -> Drawn:
    return Drawn(f"{question} Give only the number.", str(len(data)), 1, suffix, data)


# The names are part of the seeds: with others the committed questions would be others.
FAMILIES: dict[str, Family] = {"wav_rate": wav_size, "mp3_length": mp3_size, "m4a_length": m4a_size}
