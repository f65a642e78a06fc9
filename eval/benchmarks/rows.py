"""Check raw rows, in GAIA's columns or the user's, and build samples from them; other columns are ignored.

rows = [Row("metadata.jsonl, line 1", {"task_id": "7f", "Question": "How many?", "Final answer": "4"})]
read_rows(rows, Attachments(Path("my_folder"))).samples[0].target     # "4"
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from eval.benchmarks.columns import AS_GAIA, FoundColumns
from eval.benchmarks.dataset import Sample, Split, classify_attachment, normalise_question
from mas.runtime.errors import UserError
from mas.runtime.text import name_type

NO_GOLD = "?"  # GAIA's test split
MAX_LISTED = 20  # rows in a message


class BadRowError(Exception):
    """One row is bad; the message does not name its place."""


@dataclass(frozen=True)
class BadCell:
    """A cell that was found unusable when it was read: its row is bad if the column is used."""

    problem: str  # "holds an error of Excel, such as #N/A"


@dataclass(frozen=True)
class Row:
    """A row as it was read. `problem` says why there is no content to look at (a malformed line)."""

    place: str  # "metadata.jsonl, line 3"
    content: object = None
    problem: str | None = None


@dataclass(frozen=True)
class Attachments:
    """The folder that file names are looked up in, and what must never be handed out from it."""

    folder: Path
    limit: Path | None = None  # links may lead this far and no further; None: the folder itself
    metadata: Path | None = None  # holds the gold answers
    data_files: frozenset[str] = frozenset()  # bare names of further files that hold them

    def find(self, name: str) -> Path:
        """Return the absolute path of a bare name, not followed through a link so that it keeps its ending.

        BadRowError: not a bare name, not there, outside the limit, or the metadata itself.
        """
        if not is_bare_name(name):
            raise BadRowError(f"the attachment {name!r} is not the bare name of a file in the dataset's folder")
        file = self.folder.absolute() / name
        try:
            real = file.resolve()
            is_file = real.is_file()
        except (OSError, RuntimeError) as error:  # a name that is too long, links in a circle
            raise BadRowError(f"the attachment {name!r} cannot be opened ({type(error).__name__})") from error
        if not real.is_relative_to((self.limit or self.folder).resolve()):
            raise BadRowError(f"the attachment {name!r} is a link that leads out of the dataset's folder")
        if not is_file:
            raise BadRowError(f"the attachment {name!r} is not in {self.folder}")
        names = {file.name, real.name}
        is_metadata = self.metadata is not None and real == self.metadata.resolve()
        if is_metadata or names & self.data_files or any(each.startswith("metadata.") for each in names):
            raise BadRowError(f"the attachment {name!r} is the dataset's metadata, which holds the gold answers")
        return file


def is_bare_name(name: str) -> bool:
    """Return whether it is a file's name alone, on every system: no folder, drive, `..` or NUL."""
    return PureWindowsPath(name).name == name and name not in ("", ".", "..") and "\0" not in name


def read_rows(
    rows: Iterable[Row],
    attachments: Attachments,
    on_bad_row: str = "refuse",
    columns: FoundColumns = AS_GAIA,
) -> Split:
    """Return every row as a sample; without a column of ids, the id is made from the question or the row's number.

    UserError: the bad rows, of which the first twenty are listed, if they are refused; or no good row at all.
    """
    samples: dict[str, Sample] = {}
    places: dict[str, str] = {}
    bad: list[str] = []
    for number, row in enumerate(rows, start=1):
        try:
            sample = _build_sample(row, number, attachments, columns)
            if (place := places.get(sample.id)) and columns.ids_from_questions:
                made = "ids are made from the questions (data.columns.id=null numbers them)"
                raise BadRowError(f"it asks the same as {place}, and {made}")
            if place:
                raise BadRowError(f"the id {sample.id!r} is already that of {place}")
        except BadRowError as error:
            bad.append(f"{row.place}: {error}")
        else:
            samples[sample.id], places[sample.id] = sample, row.place
    if len(bad) == 1 and on_bad_row == "refuse":
        raise UserError(f"{bad[0]}; correct the row, or leave bad rows out with data.on_bad_row=skip.")
    if bad and on_bad_row == "refuse":
        more = [f"and {len(bad) - MAX_LISTED} more"] if len(bad) > MAX_LISTED else []
        listed = "\n  ".join(["", *bad[:MAX_LISTED], *more])
        raise UserError(f"{len(bad)} rows are bad; correct them, or leave them out with data.on_bad_row=skip:{listed}")
    if not samples:
        reason = f"all {len(bad)} are bad, the first one being {bad[0]}" if bad else "it has none"
        raise UserError(
            f"No rows are left in {attachments.metadata or attachments.folder}: {reason}; correct the data."
        )
    return Split(tuple(samples.values()), tuple(bad), columns.notes)


def _build_sample(row: Row, number: int, attachments: Attachments, columns: FoundColumns) -> Sample:
    if row.problem is not None:
        raise BadRowError(row.problem)
    if not isinstance(row.content, Mapping):
        raise BadRowError(f"the row is {name_type(row.content)}, not an object with columns")
    cells, names = _Cells(row.content), columns.names
    name = cells.read_text(names["file"])
    inputs = {field: cells.read_input(column) for field, column in columns.inputs.items()}
    question = _describe(inputs) if inputs else cells.read_text(names["question"])
    sample_id = _make_id(question, name) if columns.ids_from_questions else str(number)
    if names["id"]:
        sample_id = cells.read_value(names["id"]) or ""
    for column, text in ((names["question"], question), (names["id"], sample_id)):
        if column and not text.strip():
            raise BadRowError(f"{column!r} is missing or empty")
    target = cells.read_target(names["answer"])
    if target and columns.labels and normalise_question(target) not in map(normalise_question, columns.labels):
        raise BadRowError(f"the target {target!r} is not one of data.labels={','.join(columns.labels)}")
    return Sample(
        id=sample_id,
        question=question,
        file=attachments.find(name) if name else None,
        target=target,
        level=cells.read_value(names["level"]),
        tags={
            "kind": classify_attachment(name),
            **{tag: cells.read_value(tag) or "none" for tag in columns.tags},
        },
        inputs=inputs,
    )


def _describe(inputs: Mapping[str, str]) -> str:
    """Return named inputs as one readable text: the value of a single field, else a line for each field."""
    if not any(value.strip() for value in inputs.values()):
        names = ", ".join(map(repr, inputs))
        raise BadRowError(f"{names} {'is' if len(inputs) == 1 else 'are all'} missing or empty")
    if len(inputs) == 1:
        return next(iter(inputs.values()))
    return "\n".join(f"{name}: {value}" for name, value in inputs.items())


def _make_id(question: str, file: str) -> str:
    """Return an id that depends on nothing but question and file; white space is ignored, and it is never a number."""
    plain = " ".join(unicodedata.normalize("NFC", question).split())
    return "q" + hashlib.sha256(f"{plain}\n{file}".encode()).hexdigest()[:12]


class _Cells:
    """The values of a row by column; None as a column: there is no such column. All methods raise BadRowError."""

    def __init__(self, row: Mapping[str, object]) -> None:
        self._row = row

    def read_text(self, column: str | None) -> str:
        """Return a text as it is; empty if it is missing."""
        value = self._find(column)
        if value is not None and not isinstance(value, str):
            raise BadRowError(f"{column!r} must be text, and is {name_type(value)}")
        return value or ""

    def read_input(self, column: str) -> str:
        """Return the text of an input; a number, list or object as JSON, which a typed field of a program reads."""
        value = self._find(column)
        if value is None or isinstance(value, str):
            return value or ""
        try:
            return json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            expected = "text, a number, or a list or object of them"
            raise BadRowError(f"{column!r} must be {expected}, and is {name_type(value)}") from error

    def read_target(self, column: str | None) -> str | None:
        """Return the target; true and false are spelt as a program's typed output is."""
        value = self._find(column)
        target = str(value) if isinstance(value, bool) else self.read_value(column)
        return None if target == NO_GOLD else target

    def read_value(self, column: str | None) -> str | None:
        """Return text without the ".0" that Parquet's float columns add to whole numbers; blank is None."""
        value = self._find(column)
        if isinstance(value, float):
            return str(int(value)) if value.is_integer() else str(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None and not isinstance(value, str):
            hint = " (a list or an object: give it as JSON text)" if isinstance(value, list | dict) else ""
            raise BadRowError(f"{column!r} must be text or a number{hint}, and is {name_type(value)}")
        return (value or "").strip() or None

    def _find(self, column: str | None) -> object:
        """Return a value; None if it is missing, or not a number. No store or model accepts half a character."""
        value = self._row.get(column) if column else None
        if isinstance(value, BadCell):
            raise BadRowError(f"{column!r} {value.problem}")
        if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
            raise BadRowError(f"{column!r} holds half a character (a lone surrogate)")
        return None if isinstance(value, float) and value != value else value
