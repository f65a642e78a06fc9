"""Datasets of the user in a CSV or Excel file, or in the memory of a Python program: one row per sample.

questions.csv     id,prompt,label,file
                  007,What is sold most?,soap,sales.csv

columns = {"id": "id", "question": "prompt", "answer": "label", "file": "file"}
CsvDataset(path="questions.csv", columns=columns).load("all").samples[0].id      # "007"
"""

import csv
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path

from eval.benchmarks.jsonl import ONLY_SPLIT
from eval.benchmarks.rows import Attachments, Row, Table, TableDataset
from mas.agents.in_memory import find_object
from mas.runtime.errors import UserError
from mas.runtime.text import name_type

MAX_FIELD_CHARS = 10_000_000  # of one CSV cell; Python's own limit is 131,072
OTHER_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "'|'"}  # character to what is typed
EXCEL = (".xlsx", ".xlsm", ".xls")
EXCEL_ERRORS = ("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!")  # in a table made from a workbook
WORDS = {"tab": "\t", "\\t": "\t", "semicolon": ";"}  # for characters that are awkward on a command line
_ERROR, _FORMULA = "\0error", "\0formula"  # in place of a cell's text; no cell of a file can hold these
_BAD: Mapping[str | None, str] = {
    _ERROR: "holds an error of Excel, such as #N/A",
    _FORMULA: "holds a formula without a value: save the workbook in Excel",
}

Line = tuple[int, Sequence[str | None]]  # number in the file, and cells


@dataclass
class _FileDataset(TableDataset):
    """Settings and steps that both kinds of file share."""

    path: str
    default_split: str = ONLY_SPLIT

    def check(self) -> None:
        super().check()
        path = Path(self.path)
        if not path.is_file():
            found = "is a folder" if path.is_dir() else f"does not exist under {Path.cwd()}"
            raise UserError(f"data.path={self.path} {found}: give the file that holds the questions.")

    def open_table(self, split: str) -> Table:
        if split != ONLY_SPLIT:
            raise UserError(
                f"{self.path} has no split {split!r}: it is one file, so leave split out, or give split=all."
            )
        path = Path(self.path)
        lines = self._read_lines(path)
        first, header = next(lines, (0, []))
        if bad := next((_BAD[name] for name in header if name in _BAD), None):
            raise UserError(f"{path}, {self._name_line(first)}: a column's name {bad}.")
        names = [name for name in header if name]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UserError(f"{path} has two columns named {twice[0]!r}: rename one.")
        self._check_header(names)
        return Table(str(path), names, lambda columns: self._build_rows(lines, header, columns), self.find_folder(path))

    def _build_rows(self, lines: Iterator[Line], header: Sequence[str | None], columns: Sequence[str]) -> Iterator[Row]:
        for number, cells in lines:
            place = f"{self.path}, {self._name_line(number)}"
            if len(cells) != len(header):
                problem = f"the row has {len(cells)} cells, the header {len(header)} (is a comma not in quotes?)"
                yield Row(place, problem=problem)
                continue
            content = {name: cell for name, cell in zip(header, cells, strict=True) if name}
            bad = (f"{name!r} {_BAD[text]}" for name in columns if (text := content.get(name)) in _BAD)
            yield Row(place, content, next(bad, None))

    def _check_header(self, names: Sequence[str]) -> None:
        """Raise UserError if the columns' names show that the file is read in the wrong way."""

    @abstractmethod
    def _name_line(self, number: int) -> str: ...

    @abstractmethod
    def _read_lines(self, path: Path) -> Iterator[Line]:
        """Yield the lines that are not empty, the columns' names first; an empty cell is None."""


@dataclass
class CsvDataset(_FileDataset):
    """The keys of `conf/data/csv.yaml`, explained there. Cells stay text as written; an empty one is missing."""

    delimiter: str = ","
    name: str = "csv"

    def check(self) -> None:
        super().check()
        delimiter = WORDS.get(self.delimiter, self.delimiter)
        if len(delimiter) != 1 or delimiter in '"\r\n ':
            raise UserError(f"data.delimiter={self.delimiter!r} is not one character; give one, or tab or semicolon.")

    def _check_header(self, names: Sequence[str]) -> None:
        if len(names) == 1 and (found := next((each for each in OTHER_DELIMITERS if each in names[0]), None)):
            word = OTHER_DELIMITERS[found]
            raise UserError(
                f"{self.path} has one column, {names[0]!r}: give data.delimiter={word} if that separates its cells."
            )

    def _name_line(self, number: int) -> str:
        return f"line {number}"

    def _read_lines(self, path: Path) -> Iterator[Line]:
        delimiter = WORDS.get(self.delimiter, self.delimiter)
        csv.field_size_limit(max(MAX_FIELD_CHARS, csv.field_size_limit()))  # of the process; it is only ever raised
        number = 1  # of the line on which a record begins
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                # Strict: a quote that is never closed would else swallow the rest of the file into one cell.
                reader = csv.reader(file, delimiter=delimiter, strict=True)
                for cells in reader:
                    if cells:
                        yield number, [_ERROR if cell in EXCEL_ERRORS else cell or None for cell in cells]
                    number = reader.line_num + 1
        except csv.Error as error:
            raise UserError(f"{path}, line {number} cannot be read as CSV ({error}): correct its quotes.") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8: save it as UTF-8.") from error
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): give a readable file.") from error


@dataclass
class ExcelDataset(_FileDataset):
    """The keys of `conf/data/excel.yaml`, explained there. Cells become text; their number formats are not applied."""

    sheet: str | None = None  # its name; None: the first
    name: str = "excel"

    def check(self) -> None:
        super().check()
        if Path(self.path).suffix.lower() not in EXCEL:
            raise UserError(
                f"data.path={self.path} must end in {', '.join(EXCEL)}: save it as .xlsx, or give data=csv."
            )

    def _name_line(self, number: int) -> str:
        return f"row {number}"

    def _read_lines(self, path: Path) -> Iterator[Line]:
        import pandas

        try:
            with pandas.ExcelFile(path) as book:
                sheet = self._choose_sheet([str(each) for each in book.sheet_names])
                frame = book.parse(sheet, header=None, dtype=object, na_filter=False)
            formulas = _find_formulas(path, sheet)
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"{path} cannot be read as Excel ({type(error).__name__}: {error}): save it as .xlsx."
            ) from error
        for number, cells in enumerate(frame.itertuples(index=False, name=None), start=1):
            texts = [_show_cell(cell) or formulas.get((number, at)) for at, cell in enumerate(cells, start=1)]
            if any(texts):
                yield number, texts

    def _choose_sheet(self, sheets: Sequence[str]) -> str:
        if self.sheet is not None and self.sheet not in sheets:
            raise UserError(
                f"{self.path} has no sheet {self.sheet!r}: give data.sheet with one of: {', '.join(sheets)}."
            )
        return self.sheet or sheets[0]


def _find_formulas(path: Path, sheet: str) -> dict[tuple[int, int], str]:
    """Return the places of formulas, which a library that wrote the workbook may have left without a value."""
    from openpyxl import load_workbook

    if path.suffix.lower() == ".xls":
        return {}
    with closing(load_workbook(path, read_only=True)) as book:
        cells = book[sheet]
        cells.reset_dimensions()  # which the workbook may state too small
        rows = enumerate(cells.iter_rows(), start=1)
        return {
            (number, at): _FORMULA
            for number, row in rows
            for at, cell in enumerate(row, start=1)
            if cell.data_type == "f"
        }


def _show_cell(value: object) -> str | None:
    """Return a cell as text: whole numbers without `.0`, others with the 15 digits of Excel, dates in ISO form."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        if value != value:  # pandas has no other missing value here: `na_filter` is off
            return _ERROR
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    return _show_date(value) or str(value) or None


def _show_date(value: object) -> str | None:
    """Return a date or time in ISO form, a date at midnight without its time; None: it is neither."""
    if isinstance(value, datetime):
        whole_day = value.time() == time.min and value.tzinfo is None
        return value.date().isoformat() if whole_day else value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date | time) else None


@dataclass
class InMemoryDataset(TableDataset):
    """The keys of `conf/data/in_memory.yaml`: rows that a Python program has given to `mas_harness`."""

    target: str
    name: str = "in_memory"
    default_split: str = ONLY_SPLIT

    def check(self) -> None:
        super().check()
        find_object(self.target)

    def open_table(self, split: str) -> Table:
        if split != ONLY_SPLIT:
            raise UserError(f"samples given in Python have no split {split!r}: leave split out.")
        given = find_object(self.target)
        if not isinstance(given, Sequence):
            raise UserError(f"{self.target} is {name_type(given)}; expected a list of dictionaries.")
        contents = [
            {str(name): _show_value(value) for name, value in row.items()} if isinstance(row, Mapping) else row
            for row in given
        ]
        rows = [Row(f"sample {number}", content) for number, content in enumerate(contents, start=1)]
        names = dict.fromkeys(name for row in contents if isinstance(row, Mapping) for name in row)
        attachments = Attachments(Path(self.files or "."))
        return Table("the list of samples", names or None, lambda columns: rows, attachments)


def _show_value(value: object) -> object:
    """Return a value of a row as plain Python: without the types of pandas and NumPy, dates and booleans as text."""
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas"):
        if type(value).__name__ in ("NAType", "NaTType"):
            return None
        if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            value = value.item()
        elif hasattr(value, "tolist"):
            value = value.tolist()
    if isinstance(value, bool):
        return str(value)
    return _show_date(value) or value
