"""Length and format of sounds, from headers made here byte by byte, and the frames of pictures."""

import io
import struct

import pytest
from PIL import Image

from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from mas.tools.results import ToolError

FORMAT = struct.pack("<HHIIHH", 1, 2, 8_000, 32_000, 4, 16)


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def wav(*chunks: bytes) -> bytes:
    return b"RIFF\0\0\0\0WAVE" + b"".join(chunks)


def mp3(second: int, third: int, fourth: int, rest: bytes = bytes(7_996)) -> bytes:
    return bytes((0xFF, second, third, fourth)) + rest


ID3 = b"ID3\4\0\0" + bytes((0, 0, 1, 72)) + mp3(0xFB, 0x10, 0x00, bytes(196))  # with what looks like sound in it
SOUNDS = {
    "a.wav": [
        (wav(chunk(b"fmt ", FORMAT), chunk(b"LIST", b"odd"), chunk(b"data", bytes(48_000))), "1.5 seconds, 8000 Hz"),
        (wav(chunk(b"fmt ", FORMAT), chunk(b"data", bytes(64_000))[:16_008]), "0.5 seconds"),  # cut off
    ],
    "a.mp3": [
        (mp3(0xFB, 0x90, 0x00), "0.5 seconds, 44100 Hz, 2 channels"),  # MPEG 1, 128 kbit/s
        (mp3(0xFB, 0x94, 0xC0), "0.5 seconds, 48000 Hz, 1 channel"),
        (mp3(0xF3, 0x10, 0x00), "8.0 seconds, 22050 Hz, 2 channels"),  # MPEG 2, 8 kbit/s
        (mp3(0xE3, 0x80, 0xC0), "1.0 seconds, 11025 Hz, 1 channel"),  # MPEG 2.5, 64 kbit/s
        (mp3(0xFB, 0x90, 0x00, bytes(32) + b"Xing" + struct.pack(">II", 1, 1_000)), "26.1 seconds"),  # by its frames
        (mp3(0xF3, 0x90, 0x00, bytes(32) + b"Info" + struct.pack(">II", 1, 1_000)), "26.1 seconds"),
        (ID3 + mp3(0xFB, 0x90, 0x00, bytes(15_996)), "1.0 seconds"),
    ],
    "a.m4a": [
        (b"\0\0\0\x20ftypM4A moovmvhd" + bytes(12) + struct.pack(">II", 1_000, 2_500), "2.5 seconds"),
        (b"\0\0\0\x20ftypM4A moovmvhd\1" + bytes(19) + struct.pack(">IQ", 1_000, 2_500), "2.5 seconds"),
    ],
}


@pytest.mark.parametrize(("name", "data", "facts"), [(name, *each) for name, rows in SOUNDS.items() for each in rows])
def test_a_sounds_length_is_read_from_its_header(name: str, data: bytes, facts: str) -> None:
    assert facts in read_in_process(Source(name, data)).summary


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.wav", wav(chunk(b"fmt ", FORMAT))),
        ("a.wav", wav(chunk(b"fmt ", bytes(16)), chunk(b"data", b"12"))),
        *(("a.mp3", mp3(*header)) for header in ((0xFB, 0x00, 0), (0xFB, 0xF0, 0), (0xFB, 0x9C, 0), (0xEB, 0x90, 0))),
        ("a.m4a", b"\0\0\0\x20ftypM4A moovmvhd" + bytes(20)),
    ],
)
def test_a_sound_without_its_header_is_damaged(name: str, data: bytes) -> None:
    with pytest.raises(ToolError, match=rf"{name} is damaged"):
        read_in_process(Source(name, data))


@pytest.mark.parametrize("kind", ["GIF", "TIFF"])
def test_a_picture_of_several_frames_says_that_the_first_is_read(kind: str) -> None:
    written = io.BytesIO()
    first, *others = (Image.new("L", (8, 6), shade) for shade in (0, 40, 80))
    first.save(written, kind, save_all=True, append_images=others)
    summary = read_in_process(Source("a", written.getvalue())).summary
    assert summary.endswith(", 3 frames of which the first is read")
