"""Sounds for a question each: what is asked, a length or a rate, stands in the header, and nothing is said in them.

The MP3 is silence; the M4A is no more than the boxes that say what it is and how long, so no player can play it.

    FAMILIES["wav_rate"](random.Random(1), 1).suffix     # ".wav"
"""

import struct
from random import Random

from eval.benchmarks.sample_draw import Drawn, Family
from eval.benchmarks.sample_picture import wav_bytes

MP3_FRAME_SECONDS = 0.024
# MPEG 2 layer III, 8 kbit/s, 24,000 Hz, one channel; a frame without data in it is silence
_MP3_FRAME = b"\xff\xf3\x14\xc0" + bytes(20)
_TENTHS = "Give the number of seconds with one decimal."


def mp3_bytes(frames: int) -> bytes:
    """Silence of `frames` times MP3_FRAME_SECONDS."""
    return b"ID3\x04\x00\x00\x00\x00\x00\x00" + _MP3_FRAME * frames


def m4a_bytes(milliseconds: int) -> bytes:
    mvhd = struct.pack(">I4sIIIII", 108, b"mvhd", 0, 0, 0, 1000, milliseconds) + bytes(80)
    return struct.pack(">I4s4sI", 16, b"ftyp", b"M4A ", 0) + struct.pack(">I4s", 116, b"moov") + mvhd


def wav_rate(rng: Random, difficulty: int) -> Drawn:
    hertz = rng.randint(6_000, 20_000)
    question = "What is the sample rate of the attached recording, in Hz? Give only the number."
    return Drawn(question, str(hertz), 1, ".wav", wav_bytes([440, 660], hertz=hertz))


def mp3_length(rng: Random, difficulty: int) -> Drawn:
    tenths = 6 * rng.randint(20, 95)  # 25 frames are 0.6 seconds and 600 bytes
    question = f"How many seconds long is the attached recording? {_TENTHS}"
    return Drawn(question, _in_seconds(tenths), 1, ".mp3", mp3_bytes(25 * tenths // 6))


def m4a_length(rng: Random, difficulty: int) -> Drawn:
    tenths = rng.randint(300, 9_999)
    question = f"How long is the attached voice memo, in seconds? {_TENTHS}"
    return Drawn(question, _in_seconds(tenths), 1, ".m4a", m4a_bytes(100 * tenths))


def _in_seconds(tenths: int) -> str:
    return f"{tenths // 10}.{tenths % 10}"


FAMILIES: dict[str, Family] = {"wav_rate": wav_rate, "mp3_length": mp3_length, "m4a_length": m4a_length}
