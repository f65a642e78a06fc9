"""Check raw rows, in GAIA's columns or the user's, and build samples from them.

Columns as in GAIA (https://huggingface.co/datasets/gaia-benchmark/GAIA). Everything else in a row, such as GAIA's
annotated solution steps, is ignored.

    rows = [Row("metadata.jsonl, line 1", {"task_id": "7f", "Question": "How many?", "Final answer": "4"})]
    read_rows(rows, Attachments(Path("my_folder"))).samples[0].target     # "4"
"""

import hashlib
import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from eval.benchmarks.columns import AS_GAIA, FoundColumns, check_on_bad_row
from eval.benchmarks.dataset import Sample, Split, normalise_question
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

        Raises:
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

    Raises:
        UserError: the bad rows, of which the first twenty are listed, if they are refused; or no good row at all.
    """
    check_on_bad_row(on_bad_row)
    samples: dict[str, Sample] = {}
    places: dict[str, str] = {}
    bad: list[str] = []
    for number, row in enumerate(rows, start=1):
        try:
            sample = _build_sample(row, number, attachments, columns)
            _check_label(sample.target, columns.labels)
            if sample.id in places:
                raise BadRowError(_describe_duplicate(sample.id, places[sample.id], columns))
        except BadRowError as error:
            bad.append(f"{row.place}: {error}")
        else:
            samples[sample.id], places[sample.id] = sample, row.place
    if bad and on_bad_row == "refuse":
        raise UserError(_describe_bad_rows(bad))
    if not samples:
        reason = f"all {len(bad)} are bad, the first one being {bad[0]}" if bad else "the metadata is empty"
        raise UserError(
            f"No rows are left in {attachments.metadata or attachments.folder}: {reason}; correct the data."
        )
    return Split(tuple(samples.values()), tuple(bad), columns.notes)


def _check_label(target: str | None, labels: Sequence[str]) -> None:
    known = set(map(normalise_question, labels))
    if labels and target is not None and normalise_question(target) not in known:
        was_read = "true" in known and normalise_question(target) in ("yes", "no", "on", "off")
        hint = " (a YAML file reads yes as true: put it in quotes there)" if was_read else ""
        raise BadRowError(f"the target {target!r} is not one of data.labels={','.join(labels)}{hint}")


def _describe_bad_rows(bad: Sequence[str]) -> str:
    if len(bad) == 1:
        return f"{bad[0]}; correct the row, or leave bad rows out with data.on_bad_row=skip."
    more = f"\n  and {len(bad) - MAX_LISTED} more" if len(bad) > MAX_LISTED else ""
    listed = "".join(f"\n  {each}" for each in bad[:MAX_LISTED])
    return f"{len(bad)} rows are bad; correct them, or leave them out with data.on_bad_row=skip:{listed}{more}"


def _describe_duplicate(id_: str, place: str, columns: FoundColumns) -> str:
    if columns.ids_from_questions:
        return f"it asks the same as {place}, and ids are made from the questions (data.columns.id=null numbers them)"
    return f"the id {id_!r} is already that of {place}"


def _build_sample(row: Row, number: int, attachments: Attachments, columns: FoundColumns) -> Sample:
    if row.problem is not None:
        raise BadRowError(row.problem)
    if not isinstance(row.content, Mapping):
        raise BadRowError(f"the row is {name_type(row.content)}, not an object with columns")
    names, content = columns.names, row.content
    for column in columns.list_used():
        if isinstance(cell := content.get(column), BadCell):
            raise BadRowError(f"{column!r} {cell.problem}")
    for key in ("id", "question"):
        if names[key] and names[key] not in content:
            there = ", ".join(map(str, content)) or "nothing"
            raise BadRowError(f"{names[key]!r} is missing or empty (data.columns.{key}); the row has: {there}")
    cells = {key: _Cell(column or "", content.get(column) if column else None) for key, column in names.items()}
    inputs = {field: _Cell(column, content.get(column)).input() for field, column in columns.inputs.items()}
    name, question = cells["file"].text(required=False), _describe(inputs) if inputs else cells["question"].text()
    sample_id = _make_id(question, name) if columns.ids_from_questions else str(number)
    if names["id"] and (sample_id := cells["id"].number_or_text() or "") == "":
        raise BadRowError(f"{names['id']!r} is missing or empty")
    return Sample(
        id=sample_id,
        question=question,
        file=attachments.find(name) if name else None,
        target=cells["answer"].answer(),
        level=cells["level"].number_or_text(),
        tags={
            "kind": Path(name).suffix.lower().lstrip(".") or "none",
            **{tag: _Cell(tag, content.get(tag)).number_or_text() or "none" for tag in columns.tags},
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


@dataclass(frozen=True)
class _Cell:
    """One value of a row; its methods raise BadRowError if it cannot be read so."""

    column: str
    value: Any

    def text(self, required: bool = True) -> str:
        text = "" if self._is_missing() else self.value
        if not isinstance(text, str):
            raise self._build_type_error("text")
        if required and not text.strip():
            raise BadRowError(f"{self.column!r} is missing or empty")
        return self._check_encodable(text)

    def input(self) -> str:
        """Return the text of an input; a number, list or object as JSON, which a typed field of a program reads."""
        if self._is_missing():
            return ""
        if isinstance(self.value, str):
            return self._check_encodable(self.value)
        try:
            return json.dumps(self.value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._build_type_error("text, a number, or a list or object of them") from error

    def answer(self) -> str | None:
        """Return the target; true and false are spelt as a program's typed output is."""
        answer = str(self.value) if isinstance(self.value, bool) else self.number_or_text()
        return None if answer == NO_GOLD else answer

    def number_or_text(self) -> str | None:
        """Return text without the ".0" that Parquet's float columns add to whole numbers; blank is None."""
        value = None if self._is_missing() else self.value
        if isinstance(value, float):
            return str(int(value)) if value.is_integer() else str(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None and not isinstance(value, str):
            hint = " (a list or an object: give it as JSON text)" if isinstance(value, list | dict) else ""
            raise self._build_type_error(f"text or a number{hint}")
        return self._check_encodable((value or "").strip()) or None

    def _is_missing(self) -> bool:
        return self.value is None or (isinstance(self.value, float) and math.isnan(self.value))

    def _build_type_error(self, expected: str) -> BadRowError:
        return BadRowError(f"{self.column!r} must be {expected}, and is {name_type(self.value)}")

    def _check_encodable(self, text: str) -> str:
        """Refuse half a character, which JSON can escape and no store or model accepts."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadRowError(f"{self.column!r} holds half a character (a lone surrogate)") from error
        return text
