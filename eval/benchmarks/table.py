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

from eval.benchmarks.columns import AS_GAIA, Choose, ColumnSettings
from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.jsonl import ONLY_SPLIT
from eval.benchmarks.rows import Attachments, Row, read_rows
from mas.agents.in_memory import find_object
from mas.runtime.errors import UserError
from mas.runtime.text import name_type

MAX_FIELD_CHARS = 10_000_000  # of one CSV cell; Python's own limit is 131,072
OTHER_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "'|'"}  # character to what is typed
EXCEL = (".xlsx", ".xlsm", ".xls")
EXCEL_ERRORS = ("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!")  # in a table made from a workbook
WORDS = {"tab": "\t", "\\t": "\t", "semicolon": ";"}  # for characters that are awkward on a command line


@dataclass
class _TableDataset(ColumnSettings, Dataset):
    """Settings and steps that all kinds of file share."""

    path: str
    default_split: str = ONLY_SPLIT

    def check(self) -> None:
        """Check the settings before anything heavy is imported.

        Raises:
            UserError: no file at `path`, no folder at `files`, or a value that does not exist.
        """
        self.check_columns()
        path = Path(self.path)
        if not path.is_file():
            found = "is a folder" if path.is_dir() else f"does not exist under {Path.cwd()}"
            raise UserError(f"data.path={self.path} {found}: give the file that holds the questions.")

    def load(self, split: str) -> Split:
        """Read the file, whose only split is `all`.

        Raises:
            UserError: another split, a file or column that cannot be read, or a row is bad and bad rows are refused.
        """
        self.check()
        if split != ONLY_SPLIT:
            raise UserError(
                f"{self.path} has no split {split!r}: it is one file, so leave split out, or give split=all."
            )
        path = Path(self.path)
        rows, columns = self.read_columns(lambda choose: self._read_rows(path, choose), str(path))
        attachments = Attachments(self.find_attachments_folder(path), metadata=path)
        return read_rows(rows, attachments, self.on_bad_row, columns)

    @abstractmethod
    def _read_rows(self, path: Path, choose: Choose) -> Iterator[Row]:
        """Call `choose` with the columns of the file, then yield its rows, each with its place."""


def _check_names(path: Path, names: Sequence[str]) -> Sequence[str]:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{path} has two columns named {twice[0]!r}: rename one.")
    return names


@dataclass
class CsvDataset(_TableDataset):
    """The keys of `conf/data/csv.yaml`, explained there. Cells stay text as written; an empty one is missing."""

    delimiter: str = ","
    name: str = "csv"

    def check(self) -> None:
        super().check()
        delimiter = WORDS.get(self.delimiter, self.delimiter)
        if len(delimiter) != 1 or delimiter in '"\r\n ':
            raise UserError(f"data.delimiter={self.delimiter!r} is not one character; give one, or tab or semicolon.")

    def _read_rows(self, path: Path, choose: Choose) -> Iterator[Row]:
        lines = self._read_lines(path)
        _, names = next(lines, (0, []))
        if len(names) == 1 and (found := next((each for each in OTHER_DELIMITERS if each in names[0]), None)):
            word = OTHER_DELIMITERS[found]
            raise UserError(
                f"{path} has one column, {names[0]!r}: give data.delimiter={word} if that separates its cells."
            )
        columns = choose(_check_names(path, names))
        for number, cells in lines:
            place = f"{path}, line {number}"
            if len(cells) == len(names):
                content = {name: cell or None for name, cell in zip(names, cells, strict=True)}
                errors = [name for name in columns if content[name] in EXCEL_ERRORS]
                yield Row(place, content, f"{errors[0]!r} {_BAD[_ERROR]}" if errors else None)
            else:
                problem = f"the row has {len(cells)} cells, the header {len(names)} (is a comma not in quotes?)"
                yield Row(place, problem=problem)

    def _read_lines(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        """Yield the records that are not blank, each with the number of its first line."""
        delimiter = WORDS.get(self.delimiter, self.delimiter)
        csv.field_size_limit(max(MAX_FIELD_CHARS, csv.field_size_limit()))  # of the process; it is only ever raised
        number = 1
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                # Strict: a quote that is never closed would else swallow the rest of the file into one cell.
                reader = csv.reader(file, delimiter=delimiter, strict=True)
                for cells in reader:
                    if cells:
                        yield number, cells
                    number = reader.line_num + 1
        except csv.Error as error:
            raise UserError(f"{path}, line {number} cannot be read as CSV ({error}): correct its quotes.") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8: save it as UTF-8.") from error
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): give a readable file.") from error


@dataclass
class ExcelDataset(_TableDataset):
    """The keys of `conf/data/excel.yaml`, explained there. Cells become text; their number formats are not applied."""

    sheet: str | None = None  # its name; None: the first
    name: str = "excel"

    def check(self) -> None:
        super().check()
        if Path(self.path).suffix.lower() not in EXCEL:
            raise UserError(
                f"data.path={self.path} must end in {', '.join(EXCEL)}: save it as .xlsx, or give data=csv."
            )

    def _read_rows(self, path: Path, choose: Choose) -> Iterator[Row]:
        lines = self._read_lines(path)
        first, names = next(lines, (0, []))
        if bad := next((_BAD[name] for name in names if name in _BAD), None):
            raise UserError(f"{path}, row {first}: a column's name {bad}.")
        columns = choose(_check_names(path, [name for name in names if name]))
        for number, cells in lines:
            content = {name: cell for name, cell in zip(names, cells, strict=True) if name}
            problem = next((f"{name!r} {_BAD[text]}" for name in columns if (text := content.get(name)) in _BAD), None)
            yield Row(f"{path}, row {number}", content, problem)

    def _read_lines(self, path: Path) -> Iterator[tuple[int, list[str | None]]]:
        """Yield the rows that are not empty, each with its number in the sheet."""
        import pandas

        try:
            with pandas.ExcelFile(path) as book:
                sheet = self._choose_sheet(path, [str(each) for each in book.sheet_names])
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

    def _choose_sheet(self, path: Path, sheets: Sequence[str]) -> str:
        if self.sheet is None:
            return sheets[0]
        if self.sheet not in sheets:
            raise UserError(f"{path} has no sheet {self.sheet!r}: give data.sheet with one of: {', '.join(sheets)}.")
        return self.sheet


_ERROR, _FORMULA = "\0error", "\0formula"  # in place of a cell's text; no cell of a workbook can hold these
_BAD: Mapping[str | None, str] = {
    _ERROR: "holds an error of Excel, such as #N/A",
    _FORMULA: "holds a formula without a value: save the workbook in Excel",
}


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
    return show_date(value) or str(value) or None


def show_date(value: object) -> str | None:
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
        """Check the settings.

        Raises:
            UserError: a value does not exist, or the rows are those of a program that is over.
        """
        self.check_columns()
        find_object(self.target)

    def load(self, split: str) -> Split:
        """Return the rows as samples; the only split is `all`.

        Raises:
            UserError: another split, a column that is missing, or a row is bad and bad rows are refused.
        """
        self.check()
        if split != ONLY_SPLIT:
            raise UserError(f"samples given in Python have no split {split!r}: leave split out.")
        rows = find_object(self.target)
        if not isinstance(rows, Sequence):
            raise UserError(f"{self.target} is {name_type(rows)}; expected a list of dictionaries.")
        contents = [_show_values(row) if isinstance(row, Mapping) else row for row in rows]
        names = dict.fromkeys(name for row in contents if isinstance(row, Mapping) for name in row)
        columns = self.find_columns(names, "the list of samples") if names else AS_GAIA
        attachments = Attachments(self.find_attachments_folder(Path("samples")))
        places = (Row(f"sample {number}", content) for number, content in enumerate(contents, start=1))
        return read_rows(places, attachments, self.on_bad_row, columns)


def _show_values(row: Mapping[object, object]) -> dict[str, object]:
    return {str(name): _show_value(value) for name, value in row.items()}


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
    return show_date(value) or value
