"""Parquet: rows, types, cells of every kind, and damage."""

import datetime
import io
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from mas.tools.attachments import use_attachments
from mas.tools.files.document import Document, Line, Source
from mas.tools.files.kinds import read_in_process
from mas.tools.read_file import read_file
from mas.tools.results import ToolError


def parquet_bytes(**columns: list[object]) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table(columns), written)
    return written.getvalue()


def read(data: bytes) -> Document:
    return read_in_process(Source("towns.parquet", data))


def test_rows_have_numbers_and_columns_their_types(tmp_path: Path) -> None:
    (tmp_path / "towns.parquet").write_bytes(parquet_bytes(town=["Rome", "Oslo|x"], people=[7, None]))
    with use_attachments([tmp_path / "towns.parquet"]):
        shown = read_file("towns.parquet")
        found = read_file("towns.parquet", search="oslo")
    assert shown == (
        "towns.parquet: table with 2 columns and 2 rows below the column names, Parquet; page 1 of 1\n"
        "Column types: town: string, people: int64\n\nrow | town | people\n1 | Rome | 7\n2 | Oslo\\|x | "
    )
    assert "> 2 | Oslo\\|x | " in found


def test_cells_of_every_type() -> None:
    day, at = datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 9, 30)
    document = read(parquet_bytes(a=[True], b=[0.5], c=[b"\x01\xff"], d=[day], e=[at], f=[[1, None]], g=[{"x": "ü"}]))
    assert document.parts[0].lines == [
        Line(1, 'True | 0.5 | 01ff | 2024-01-31 | 2024-01-31 09:30:00 | [1, null] | {"x": "ü"}')
    ]


def test_damage_is_a_sentence() -> None:
    data = parquet_bytes(n=[1, 2, 3])
    for damaged in (data[:-20], data[:4] + bytes(100), b"PAR1"):
        with pytest.raises(ToolError, match=r"towns\.parquet cannot be read as "):
            read(damaged)
