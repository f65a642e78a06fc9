"""Datasets of the user: JSON lines, Parquet, CSV, Excel, or the memory of a Python program; one row per sample.

JsonlDataset(path="my_folder").load("all").samples[0].file      # my_folder/sales.csv, named in metadata.jsonl there
columns = {"id": "id", "question": "prompt", "answer": "label", "file": "file"}
CsvDataset(path="questions.csv", columns=columns).load("all").samples[0].id      # "007"
"""

import csv
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from io import BytesIO
from pathlib import Path

from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.rows import BadRowError, ColumnSettings, Row
from mas.agents.targets import find_object
from mas.runtime.errors import UserError
from mas.runtime.text import name_type
from mas.tools.files.document import Source
from mas.tools.files.readers.converted import is_installed, save_as
from mas.tools.results import ToolError

METADATA = ("metadata.jsonl", "metadata.parquet")  # if both are there, the first
ONLY_SPLIT = "all"  # the name of a split that has no sub-folder of its own
MAX_FIELD_CHARS = 10_000_000  # of one CSV cell; Python's own limit is 131,072
DELIMITERS = {"semicolon": ";", "tab": "\t", "'|'": "|"}  # by what is typed
EXCEL = (".xlsx", ".xlsm", ".xls")
EXCEL_ERRORS = ("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!")  # in a table made from a workbook
_ERROR = BadRowError("holds an error of Excel, such as #N/A")
_FORMULA = BadRowError("holds a formula without a value: save the workbook in Excel, or install LibreOffice")

Cell = str | BadRowError | None
Line = tuple[int, Sequence[Cell]]  # number in the file, and cells
Cells = dict[tuple[int, int], Cell]  # of a sheet by row and column, from 1; none is empty


@dataclass
class FileDataset(ColumnSettings, Dataset):
    """Base of datasets in files of the user."""

    path: str
    default_split: str = ONLY_SPLIT

    def check(self) -> None:
        super().check()
        self.list_splits()

    def load(self, split: str) -> Split:
        self.check()
        splits = self.list_splits()
        if split == ONLY_SPLIT and len(splits) == 1:
            split = next(iter(splits))
        if split not in splits:
            known = ", ".join(splits)
            raise UserError(f"{self.path} has no split {split!r}: give one that it has with split=…: {known}.")
        return self.build_split(list(self.read(splits[split])), splits[split])

    def list_splits(self) -> dict[str, Path]:
        """Return the file of each split. UserError: nothing that can be read at `path`."""
        path = Path(self.path)
        if not path.is_file():
            found = "is a folder" if path.is_dir() else f"does not exist under {Path.cwd()}"
            raise UserError(f"data.path={self.path} {found}: give the file that holds the questions.")
        return {ONLY_SPLIT: path}

    @abstractmethod
    def read(self, file: Path) -> Iterator[Row]:
        """Yield the rows of a file; raises UserError as `load`."""


@dataclass
class JsonlDataset(FileDataset):
    """The keys of `conf/data/jsonl.yaml`, explained there."""

    needs_target = False
    name: str = "jsonl"

    def list_splits(self) -> dict[str, Path]:
        path, expected = Path(self.path), f"give a folder with {' or '.join(METADATA)}, or such a file"
        if not path.exists():
            raise UserError(f"data.path={path} does not exist under {Path.cwd()}: {expected}.")
        if path.is_file():
            if path.suffix not in (".jsonl", ".parquet"):
                raise UserError(f"data.path={path} does not end in .jsonl or .parquet: {expected}, or data=csv.")
            return {ONLY_SPLIT: path}
        folders = {ONLY_SPLIT: path} | {each.name: each for each in sorted(path.iterdir()) if each.is_dir()}
        files = {split: [folder / name for name in METADATA] for split, folder in folders.items()}
        splits = {split: file for split, both in files.items() for file in reversed(both) if file.is_file()}
        if not splits:
            raise UserError(f"data.path={path} holds no {METADATA[0]}, nor has a sub-folder with one: {expected}.")
        return splits

    def read(self, file: Path) -> Iterator[Row]:
        if file.suffix == ".parquet":
            yield from _read_parquet(file)
            return
        # Bytes, since splitting text would also break at U+2028 in a question, and one line's encoding is one bad row.
        for number, line in enumerate(file.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            place = f"{file}, line {number}"
            if not line.strip():
                continue
            try:
                yield Row(place, json.loads(line.decode("utf-8")))
            except UnicodeDecodeError:
                yield Row(place, problem="the line is not UTF-8")
            except (ValueError, RecursionError) as error:
                yield Row(place, problem=f"the line is not JSON ({error})")


def _read_parquet(file: Path) -> Iterator[Row]:
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        rows = pyarrow.parquet.read_table(file).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{file} cannot be read as Parquet ({type(error).__name__}): write it again.") from error
    for number, content in enumerate(rows, start=1):
        yield Row(f"{file}, row {number}", content)


@dataclass
class CsvDataset(FileDataset):
    """The keys of `conf/data/csv.yaml`, explained there. Cells stay text as written; an empty one is missing."""

    delimiter: str = ","
    name: str = "csv"

    def check(self) -> None:
        super().check()
        delimiter = DELIMITERS.get(self.delimiter, self.delimiter)
        if len(delimiter) != 1 or delimiter in '"\r\n ':
            raise UserError(f"data.delimiter={self.delimiter!r} is not one character; give one, or tab or semicolon.")

    def read(self, file: Path) -> Iterator[Row]:
        return _name_cells(self._read_lines(file), file, "line")

    def _read_lines(self, path: Path) -> Iterator[Line]:
        delimiter = DELIMITERS.get(self.delimiter, self.delimiter)
        csv.field_size_limit(max(MAX_FIELD_CHARS, csv.field_size_limit()))  # of the process; it is only ever raised
        number = 1  # of the line on which a record begins
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                # Strict: a quote that is never closed would else swallow the rest of the file into one cell.
                reader = csv.reader(file, delimiter=delimiter, strict=True)
                for cells in reader:
                    other = [word for word, each in DELIMITERS.items() if len(cells) == 1 and each in cells[0]]
                    if other and number == 1:
                        given = f"give data.delimiter={other[0]} if that separates its cells"
                        raise UserError(f"{path} has one column, {cells[0]!r}: {given}.")
                    if cells:
                        yield number, [_ERROR if cell in EXCEL_ERRORS else cell or None for cell in cells]
                    number = reader.line_num + 1
        except csv.Error as error:
            raise UserError(f"{path}, line {number} cannot be read as CSV ({error}): correct its quotes.") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8: save it as UTF-8.") from error


@dataclass
class ExcelDataset(FileDataset):
    """The keys of `conf/data/excel.yaml`, explained there. Cells become text; their number formats are not applied."""

    sheet: str | None = None  # its name; None: the first
    name: str = "excel"

    def check(self) -> None:
        super().check()
        if Path(self.path).suffix.lower() not in EXCEL:
            raise UserError(
                f"data.path={self.path} must end in {', '.join(EXCEL)}: save it as .xlsx, or give data=csv."
            )

    def read(self, file: Path) -> Iterator[Row]:
        try:
            values, formulas = self._read_cells(file), Cells()
            if file.suffix.lower() != ".xls":  # what a library wrote as a formula may have no value
                formulas = self._read_cells(file, data_only=False)
            if formulas.keys() - values.keys() and is_installed():
                with suppress(ToolError):  # LibreOffice cannot open it: the rows of its formulas are bad
                    book = save_as(Source(file.name, file.read_bytes()), file.suffix.lower(), ".xlsx")
                    values = self._read_cells(BytesIO(book)) | values
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise UserError(
                f"{file} cannot be read as Excel ({cause}): correct data.sheet, or save it as .xlsx."
            ) from error
        cells, width = dict.fromkeys(formulas, _FORMULA) | values, max((at for _, at in values), default=0)
        numbers = sorted({number for number, at in cells if at <= width})
        lines = ((number, [cells.get((number, at)) for at in range(1, width + 1)]) for number in numbers)
        return _name_cells(lines, file, "row")

    def _read_cells(self, book: Path | BytesIO, **options: bool) -> Cells:
        """Return the cells of the sheet that are not empty; `options` of openpyxl."""
        import pandas

        with pandas.ExcelFile(book, engine_kwargs=options) as opened:
            frame = opened.parse(self.sheet or 0, header=None, dtype=object, na_filter=False)
        rows = enumerate(frame.itertuples(index=False, name=None), start=1)
        texts = {(number, at): _show_cell(cell) for number, row in rows for at, cell in enumerate(row, start=1)}
        return {place: text for place, text in texts.items() if text}


def _name_cells(lines: Iterator[Line], file: Path, word: str) -> Iterator[Row]:
    """Yield lines that are not empty as rows, by the columns' names in the first one; `word`: what a line is called."""
    first, header = next(lines, (0, []))
    if bad := next((name for name in header if isinstance(name, BadRowError)), None):
        raise UserError(f"{file}, {word} {first}: a column's name {bad}.")
    names = [name for name in header if name]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{file} has two columns named {twice[0]!r}: rename one.")
    for number, cells in lines:
        problem = None
        if len(cells) != len(header):
            problem = f"the row has {len(cells)} cells, the header {len(header)} (is a comma not in quotes?)"
        named = {name: cell for name, cell in zip(header, cells, strict=False) if name}
        yield Row(f"{file}, {word} {number}", named, problem)


def _show_cell(value: object) -> Cell:
    """Return a cell as text: whole numbers without `.0`, others with the 15 digits of Excel, dates in ISO form."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.15g}" if value == value else _ERROR  # pandas has no other missing value: `na_filter` is off
    return _show_date(value) or str(value) or None


def _show_date(value: object) -> str | None:
    """Return a date or time in ISO form, a date at midnight without its time; None: it is neither."""
    if isinstance(value, datetime):
        whole_day = value.time() == time.min and value.tzinfo is None
        return value.date().isoformat() if whole_day else value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date | time) else None


@dataclass
class InMemoryDataset(ColumnSettings, Dataset):
    """The keys of `conf/data/in_memory.yaml`: rows that a Python program has given to `mas_harness`."""

    target: str
    name: str = "in_memory"
    default_split: str = ONLY_SPLIT

    def check(self) -> None:
        super().check()
        find_object(self.target)

    def load(self, split: str) -> Split:
        self.check()
        if split != ONLY_SPLIT:
            raise UserError(f"samples in memory have no split {split!r}: leave split out, or give split={ONLY_SPLIT}.")
        given = find_object(self.target)
        if not isinstance(given, Sequence):
            raise UserError(f"{self.target} is {name_type(given)}; expected a list of dictionaries.")
        rows = [
            {str(name): _show_value(value) for name, value in row.items()} if isinstance(row, Mapping) else row
            for row in given
        ]
        return self.build_split([Row(f"sample {number}", row) for number, row in enumerate(rows, start=1)], None)


def _show_value(value: object) -> object:
    """Return a value of a row as plain Python: without the types of pandas and NumPy, dates and booleans as text."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return str(value)
    return _show_date(value) or value
