"""Length and format of sounds, from headers made here byte by byte."""

import struct

import pytest

from mas.tools.files.document import Source
from mas.tools.files.readers.media import read_m4a, read_mp3, read_wav
from mas.tools.results import ToolError

FORMAT = struct.pack("<HHIIHH", 1, 2, 8_000, 32_000, 4, 16)


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def wav(*chunks: bytes) -> Source:
    return Source("a.wav", b"RIFF\0\0\0\0WAVE" + b"".join(chunks))


def test_a_wave_file_is_read_chunk_by_chunk() -> None:
    odd = chunk(b"LIST", b"odd")  # padded to an even length
    document = read_wav(wav(odd, chunk(b"fmt ", FORMAT), odd, chunk(b"data", bytes(48_000))))
    assert document.summary == "sound, WAV, 1.5 seconds, 8000 Hz, 2 channels"
    cut = read_wav(wav(chunk(b"fmt ", FORMAT), chunk(b"data", bytes(64_000))[:16_008]))
    assert "0.5 seconds" in cut.summary
    seconds = read_wav(wav(chunk(b"fmt ", FORMAT), chunk(b"data", bytes(1_600)))).summary  # 0.05 s exactly
    assert "0.1 seconds" in seconds
    assert "0.0 seconds" in read_wav(wav(chunk(b"fmt ", FORMAT), chunk(b"data", b""))).summary  # a header at the end


@pytest.mark.parametrize(
    "chunks",
    [[], [chunk(b"fmt ", FORMAT)], [chunk(b"data", b"12")], [chunk(b"fmt ", bytes(16)), chunk(b"data", b"12")],
     [chunk(b"fmt ", FORMAT), chunk(b"data", b"")[:7]]],
)  # fmt: skip
def test_a_wave_file_without_its_chunks_is_damaged(chunks: list[bytes]) -> None:
    with pytest.raises(ToolError, match=r"a\.wav is damaged: it has no WAV header"):
        read_wav(wav(*chunks))


def frame(second: int, third: int, fourth: int) -> bytes:
    return bytes((0xFF, second, third, fourth))


@pytest.mark.parametrize(
    ("header", "facts"),
    [
        (frame(0xFB, 0x90, 0x00), "0.5 seconds, 44100 Hz, 2 channels"),  # MPEG 1, 128 kbit/s
        (frame(0xFB, 0x94, 0xC0), "0.5 seconds, 48000 Hz, 1 channel"),
        (frame(0xFB, 0xE8, 0x40), "0.2 seconds, 32000 Hz, 2 channels"),  # 320 kbit/s
        (frame(0xF3, 0x10, 0x00), "8.0 seconds, 22050 Hz, 2 channels"),  # MPEG 2, 8 kbit/s
        (frame(0xE3, 0x80, 0xC0), "1.0 seconds, 11025 Hz, 1 channel"),  # MPEG 2.5, 64 kbit/s
    ],
)
def test_the_length_of_an_mp3_file_follows_from_its_bit_rate(header: bytes, facts: str) -> None:
    assert read_mp3(Source("a.mp3", header + bytes(7_996))).summary == f"sound, MP3, {facts}"


@pytest.mark.parametrize(("second", "samples", "rate"), [(0xFB, 1152, 44_100), (0xF3, 576, 22_050)])
@pytest.mark.parametrize("mark", [b"Xing", b"Info"])
def test_the_number_of_frames_counts_more_than_the_bit_rate(mark: bytes, second: int, samples: int, rate: int) -> None:
    for flags, count in ((1, 1_000), (3, 1_000), (2, None)):  # 2: the count is not there
        data = frame(second, 0x90, 0x00) + bytes(32) + mark + struct.pack(">II", flags, 1_000)
        seconds = count * samples / rate if count else len(data) * 8 / (128_000 if second == 0xFB else 80_000)
        assert f" {seconds:.1f} seconds" in read_mp3(Source("a.mp3", data)).summary


def test_a_tag_before_the_sound_is_skipped_with_what_looks_like_sound_in_it() -> None:
    tag = frame(0xFB, 0x10, 0x00) + bytes(196)
    data = b"ID3\4\0\0" + bytes((0, 0, 1, 72)) + tag + frame(0xFB, 0x90, 0x00) + bytes(15_996)
    assert "1.0 seconds" in read_mp3(Source("a.mp3", data)).summary
    assert "1.0 seconds" in read_mp3(Source("a.mp3", data[210:])).summary


@pytest.mark.parametrize(
    "header",
    [frame(0xFB, 0x00, 0), frame(0xFB, 0xF0, 0), frame(0xFB, 0x9C, 0), frame(0xFD, 0x90, 0), frame(0xEB, 0x90, 0),
     frame(0x1B, 0x90, 0), b"ID3", b""],
)  # fmt: skip
def test_what_has_no_frame_is_damaged(header: bytes) -> None:
    with pytest.raises(ToolError, match=r"a\.mp3 is damaged: it has no MP3 header"):
        read_mp3(Source("a.mp3", header + bytes(300) * bool(header != b"ID3")))


def test_the_length_of_an_mpeg_4_file_is_in_its_header_in_four_or_eight_bytes() -> None:
    short = b"mvhd" + bytes(12) + struct.pack(">II", 1_000, 2_500)
    long = b"mvhd\1" + bytes(19) + struct.pack(">IQ", 1_000, 2_500)
    for data in (short, long):
        assert read_m4a(Source("a.m4a", b"moov" + data)).summary == "sound, MPEG-4 audio, 2.5 seconds"
    for data in (b"", b"mvhd", short[:-1], b"mvhd" + bytes(20)):
        with pytest.raises(ToolError, match="no MPEG-4 header"):
            read_m4a(Source("a.m4a", data))
