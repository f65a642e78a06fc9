"""Datasets of the user in a CSV or Parquet file, one row per sample.

questions.csv     id,prompt,label,file
                  007,What is sold most?,soap,sales.csv

columns = {"id": "id", "question": "prompt", "answer": "label", "file": "file"}
CsvDataset(path="questions.csv", columns=columns).load("all").samples[0].id      # "007"
"""

import csv
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eval.benchmarks.columns import ColumnSettings
from eval.benchmarks.dataset import Dataset, Split
from eval.benchmarks.rows import Attachments, Row, check_on_bad_row, find_attachments_folder, read_rows
from mas.runtime.errors import UserError

T = TypeVar("T")
ONLY_SPLIT = "all"
MAX_FIELD_CHARS = 10_000_000  # of one CSV cell; Python's own limit is 131,072
OTHER_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "'|'"}  # character to what is typed
WORDS = {"tab": "\t", "\\t": "\t", "semicolon": ";"}  # for characters that are awkward on a command line


@dataclass
class _TableDataset(ColumnSettings, Dataset):
    """Settings and steps that both kinds of file share."""

    path: str
    files: str | None = None
    on_bad_row: str = "refuse"
    default_split: str = ONLY_SPLIT

    def check(self) -> None:
        """Check the settings before anything heavy is imported.

        Raises:
            UserError: no file at `path`, no folder at `files`, or a value that does not exist.
        """
        check_on_bad_row(self.on_bad_row)
        self.check_columns()
        path = Path(self.path)
        if not path.is_file():
            found = "is a folder" if path.is_dir() else f"does not exist under {Path.cwd()}"
            raise UserError(f"data.path={self.path} {found}: give the file that holds the questions.")
        find_attachments_folder(self.files, path)

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
        columns = self.find_columns(self._read_names(path), str(path))
        attachments = Attachments(find_attachments_folder(self.files, path), metadata=path)
        return read_rows(self._read_rows(path, columns.list_used()), attachments, self.on_bad_row, columns)

    @abstractmethod
    def _read_names(self, path: Path) -> Sequence[str]:
        """Return the columns of the file."""

    @abstractmethod
    def _read_rows(self, path: Path, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the file's rows, each with its place."""


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

    def _read_names(self, path: Path) -> Sequence[str]:
        _, names = next(self._read_lines(path), (0, []))
        if len(names) == 1 and (found := next((each for each in OTHER_DELIMITERS if each in names[0]), None)):
            word = OTHER_DELIMITERS[found]
            raise UserError(
                f"{path} has one column, {names[0]!r}: give data.delimiter={word} if that separates its cells."
            )
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UserError(f"{path} has two columns named {twice[0]!r}: rename one.")
        return names

    def _read_rows(self, path: Path, columns: Sequence[str]) -> Iterator[Row]:
        lines = self._read_lines(path)
        _, names = next(lines)
        for number, cells in lines:
            place = f"{path}, line {number}"
            if len(cells) == len(names):
                yield Row(place, {name: cell or None for name, cell in zip(names, cells, strict=True)})
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
class ParquetDataset(_TableDataset):
    """The keys of `conf/data/parquet.yaml`, explained there. Only the columns that are mapped are read."""

    name: str = "parquet"

    def _read_names(self, path: Path) -> Sequence[str]:
        import pyarrow.parquet  # type: ignore[import-untyped]

        names: list[str] = _read_parquet(path, pyarrow.parquet.read_schema).names
        return names

    def _read_rows(self, path: Path, columns: Sequence[str]) -> Iterator[Row]:
        import pyarrow.parquet

        contents: list[Mapping[str, object]] = _read_parquet(
            path, pyarrow.parquet.read_table, columns=list(columns)
        ).to_pylist()
        for number, content in enumerate(contents, start=1):
            yield Row(f"{path}, row {number}", content)


def _read_parquet(path: Path, read: Callable[..., T], **options: object) -> T:
    import pyarrow

    try:
        return read(path, **options)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read as Parquet ({type(error).__name__}): write it again.") from error
