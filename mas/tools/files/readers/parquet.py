"""Reader of Parquet tables.

read(Source("towns.parquet", data)).parts[0].heading      # "row | city | people"
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

from mas.tools.files.document import Document, Source
from mas.tools.files.readers.structured import build_table
from mas.tools.results import ToolError

BATCH_ROWS = 4_096


def read(source: Source) -> Document:
    """Return the rows of a table."""
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(source.open())
        schema = file.schema_arrow
        types = ", ".join(f"{field.name}: {field.type}" for field in schema)
        table = build_table(list(schema.names), _read_rows(file), "Parquet")
        return replace(table, notes=[f"Column types: {types}", *table.notes])
    except pyarrow.ArrowException as error:
        raise ToolError(f"{source.name} cannot be read as a Parquet table ({type(error).__name__}).") from error


def _read_rows(file: "ParquetFile") -> Iterator[list[str]]:
    for batch in file.iter_batches(batch_size=BATCH_ROWS):
        columns = [column.to_pylist() for column in batch.columns]
        for cells in zip(*columns, strict=True):
            yield [_format_value(value) for value in cells]


def _format_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
