"""Readers of pictures (size, and the text in them by OCR) and sound files (length, from their headers).

    read_picture(Source("sign.png", data)).summary     # "picture, PNG, 640 x 200 pixels, colour mode RGB"
    read_wav(Source("memo.wav", data)).summary         # "sound, WAV, 3.0 seconds, 8000 Hz, 1 channel"

Models listen to sound: mas/agents/media.py.
"""

import re
import struct
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
# ISO 11172-3 and 13818-3, layer III. Version bits: 3: MPEG 1; 2: MPEG 2; 0: MPEG 2.5, an extension.
_FRAME = re.compile(rb"\xff([\xe2\xe3\xf2\xf3\xfa\xfb])([\x10-\xef])(.)", re.DOTALL)
_COUNT = re.compile(rb"(?:Xing|Info)\0\0\0[\x01\x03\x05\x07\x09\x0b\x0d\x0f](.{4})", re.DOTALL)  # of frames
_KBITS_1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KBITS_2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}


def read_wav(source: Source) -> Document:
    """Return format and length of a WAV file: the chunk `fmt ` has its rates, the chunk `data` its samples."""
    start, samples = source.data.find(b"fmt "), source.data.find(b"data")
    try:
        _, channels, rate, bytes_a_second = struct.unpack_from("<HHII", source.data, start + 8)
        size = min(struct.unpack_from("<I", source.data, samples + 4)[0], len(source.data) - samples - 8)
        if min(start, samples) < 0:
            raise _damage_error(source, "WAV")
        return _build_document("WAV", size / bytes_a_second, rate, channels)
    except (struct.error, ZeroDivisionError) as error:
        raise _damage_error(source, "WAV") from error


def read_mp3(source: Source) -> Document:
    """Return format and length of an MP3 file, by its first frame; with a variable bit rate that has their number."""
    data, start = source.data, 0
    if data[:3] == b"ID3" and len(data) >= 10:  # a tag, whose size is four bytes of seven bits each
        start = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(data[6:10], (21, 14, 7, 0), strict=True))
    for found in _FRAME.finditer(data, start, start + 65_536):
        (second,), (third,), (fourth,) = found.groups()
        version, rate = second >> 3 & 3, third >> 2 & 3
        if rate == 3:
            continue
        hertz, kbits, place = _RATES[version][rate], (_KBITS_1 if version == 3 else _KBITS_2)[third >> 4], found.start()
        seconds = (len(data) - place) * 8 / (kbits * 1000)
        if count := _COUNT.search(data, place, place + 200):
            seconds = int.from_bytes(count[1], "big") * (1152 if version == 3 else 576) / hertz
        return _build_document("MP3", seconds, hertz, 1 if fourth >> 6 == 3 else 2)
    raise _damage_error(source, "MP3")


def read_m4a(source: Source) -> Document:
    """Return the length of an MPEG-4 file: the box `mvhd` inside `moov` has a time scale and a duration."""
    place = source.data.find(b"mvhd")
    try:
        long = source.data[place + 4] == 1
        scale, duration = struct.unpack_from(">IQ" if long else ">II", source.data, place + (24 if long else 16))
        return _build_document("MPEG-4 audio", duration / scale)
    except (IndexError, struct.error, ZeroDivisionError) as error:
        raise _damage_error(source, "MPEG-4") from error


def _build_document(kind: str, seconds: float, rate: int = 0, channels: int = 0) -> Document:
    facts = [f"{rate} Hz"] * bool(rate) + [f"{channels} channel{'s' * (channels != 1)}"] * bool(channels)
    return Document(", ".join(["sound", kind, f"{seconds:.1f} seconds", *facts]), [Part([Line(1, CANNOT_LISTEN)])])


def _damage_error(source: Source, kind: str) -> ToolError:
    return ToolError(f"{source.name} is damaged: it has no {kind} header that says what it holds.")
