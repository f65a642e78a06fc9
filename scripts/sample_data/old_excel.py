"""The bytes of an Excel workbook as before 2007 (.xls), which no library at hand writes.

Source: [MS-XLS] (records) and [MS-CFB] (the container around them), as much of both as is needed for numbers and words.

    xls_bytes({"May": [["ship", "tonnes"], ["Velmor", 412]]})
"""

import struct
from collections.abc import Mapping, Sequence

from scripts.sample_data.office import Rows

_SECTOR = 512
_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_BIFF8 = 0x0600
_FILLED_STYLE = 16  # the number of the last style record
FILLED_COLOUR = 10  # of the standard palette: red


def xls_bytes(sheets: Mapping[str, Rows], filled: Sequence[tuple[str, int, int]] = ()) -> bytes:
    """One sheet for each key. `filled`: sheet, row and column (from 0) of cells on a red ground."""
    bodies = {
        title: _sheet(rows, {(row, column) for sheet, row, column in filled if sheet == title})
        for title, rows in sheets.items()
    }
    head = _record(0x0809, struct.pack("<HHHHII", _BIFF8, 5, 0x0DBB, 0x07CC, 0, 6)) + _record(0x0042, b"\xb0\x04")
    head += _font() * 4 + b"".join(_style(number) for number in range(17))
    size = len(head) + sum(12 + 2 * len(title) for title in bodies) + 4
    listed, place = b"", size
    for title, body in bodies.items():
        name = struct.pack("<BB", len(title), 1) + title.encode("utf-16-le")
        listed += _record(0x0085, struct.pack("<IBB", place, 0, 0) + name)
        place += len(body)
    return _container(head + listed + _record(0x000A) + b"".join(bodies.values()))


def _record(kind: int, content: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(content)) + content


def _font() -> bytes:
    name = "Arial"
    head = struct.pack("<HHHHHBBBB", 200, 0, 0x7FFF, 400, 0, 0, 0, 0, 0)
    return _record(0x0031, head + struct.pack("<BB", len(name), 0) + name.encode("ascii"))


def _style(number: int) -> bytes:
    """Fifteen styles, then two formats for cells: a plain one, and one with a solid fill."""
    fill = number == _FILLED_STYLE
    flags = 0x0001 if number >= 15 else 0xFFF5
    pattern = (1 << 26) if fill else 0
    colours = FILLED_COLOUR | 65 << 7 if fill else 64 | 65 << 7
    return _record(0x00E0, struct.pack("<HHHBBBBIIH", 0, 0, flags, 0x20, 0, 0, 0xF8, 0, pattern, colours))


def _sheet(rows: Rows, filled: set[tuple[int, int]]) -> bytes:
    columns = max(len(row) for row in rows)
    written = _record(0x0809, struct.pack("<HHHHII", _BIFF8, 0x10, 0x0DBB, 0x07CC, 0, 6))
    written += _record(0x0200, struct.pack("<IIHHH", 0, len(rows), 0, columns, 0))
    for row, cells in enumerate(rows):
        for column, value in enumerate(cells):
            place = struct.pack("<HHH", row, column, _FILLED_STYLE if (row, column) in filled else 15)
            if isinstance(value, int | float):
                written += _record(0x0203, place + struct.pack("<d", value))
            else:
                text = str(value)
                written += _record(0x0204, place + struct.pack("<HB", len(text), 1) + text.encode("utf-16-le"))
    return written + _record(0x000A)


def _container(stream: bytes) -> bytes:
    """One stream in a compound file: header, sector table, directory, content. At most 126 sectors, which is 63 KB."""
    stream = stream.ljust(4096, b"\0")  # a shorter one would have to lie in small sectors
    sectors = -(-len(stream) // _SECTOR)
    chain = [_FAT, _END, *range(3, sectors + 2), _END]
    if len(chain) > _SECTOR // 4:
        raise ValueError(f"a sheet of {len(stream)} bytes is too long for this writer")
    table = b"".join(struct.pack("<I", each) for each in chain).ljust(_SECTOR, b"\xff")
    entries = _entry("Root Entry", 5, child=1, start=_END, size=0)
    entries += _entry("Workbook", 2, child=_FREE, start=2, size=len(stream)) + _entry("", 0, _FREE, 0, 0) * 2
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    head += struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, _END, 0, _END, 0)
    head += struct.pack("<I", 0) + b"\xff" * (108 * 4)
    return head + table + entries + stream.ljust(sectors * _SECTOR, b"\0")


def _entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
    text = f"{name}\0".encode("utf-16-le") if name else b""
    head = text.ljust(64, b"\0") + struct.pack("<HBB", len(text), kind, 1)
    return head + struct.pack("<III", _FREE, _FREE, child) + bytes(36) + struct.pack("<IQ", start, size)
