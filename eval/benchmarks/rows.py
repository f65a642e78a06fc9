"""Columns and rows of the user's data, or GAIA's: find the columns, check raw rows, and build samples from them.

ColumnSettings().find_columns(["input", "target"], "x.csv").names["answer"]      # "target", a usual name
rows = [Row("metadata.jsonl, line 1", {"task_id": "7f", "Question": "How many?", "Final answer": "4"})]
read_rows(rows, Attachments(Path("my_folder"))).samples[0].target     # "4"; other columns are ignored
"""

import hashlib
import json
import math
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Any, ClassVar, Literal

from eval.benchmarks.dataset import Sample, Split, classify_attachment, normalise_question, read_labels
from mas.runtime.errors import UserError
from mas.runtime.text import name_type


def normalise_column(name: object) -> str:
    """Return a column's name without differences of case, of blanks around it, and of `_` and space."""
    return str(name).strip().casefold().replace("_", " ")


_NAMES = {  # of each key: GAIA's name, then other usual ones
    "id": ("task_id", "id", "question_id"),
    "question": ("Question", "input", "prompt", "problem"),
    "answer": ("Final answer", "answer", "target", "expected", "expected answer", "expected output"),
    "level": ("Level",),
    "file": ("file_name", "filename", "file", "attachment"),
}
GAIA_COLUMNS = {key: names[0] for key, names in _NAMES.items()}
USUAL = {key: tuple(map(normalise_column, names)) for key, names in _NAMES.items()}
NO_GOLD = "?"  # GAIA's test split
MAX_LISTED = 20  # rows in a message

Cells = Mapping[str, object]  # of a row, by column


class BadRowError(Exception):
    """One row is bad; the message does not name its place.

    As the value of a cell: the row is bad if its column is used, whose name comes before the message.
    """


@dataclass(frozen=True)
class Row:
    """A row as it was read. `problem` says why there is no content to look at (a malformed line)."""

    place: str  # "metadata.jsonl, line 3"
    content: object = None
    problem: str | None = None


@dataclass(frozen=True)
class FoundColumns:
    """The column of every key in some data, and notes about it."""

    names: Mapping[str, str | None]  # of each key of GAIA_COLUMNS; None: the data have no such column
    ids_from_questions: bool = False  # without a column for ids; False: the rows are then numbered
    notes: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)  # input field → column; empty: the question alone
    labels: tuple[str, ...] = ()  # that targets must be one of; empty: any target
    tags: tuple[str, ...] = ()  # columns that put samples into categories

    def list_used(self) -> list[str]:
        """Return the columns of the data that are read, each once."""
        return list(dict.fromkeys([*filter(None, self.names.values()), *self.inputs.values(), *self.tags]))


AS_GAIA = FoundColumns(GAIA_COLUMNS)


@dataclass(kw_only=True)
class ColumnSettings:
    """Keys that say what is read and how; the same in each file of `conf/data/` for the user's own data."""

    needs_target: ClassVar[bool] = True  # there must be a column of targets, or columns.answer=null

    columns: dict[str, str | None] = field(default_factory=lambda: dict(GAIA_COLUMNS))
    inputs: Any = None  # [column, …] or {field: column}: named inputs instead of one question; None: the question
    target_column: str | None = None  # instead of columns.answer
    labels: list[Any] = field(default_factory=list)  # the targets that there are; empty: any
    tags: list[Any] = field(default_factory=list)  # columns whose values are categories with numbers of their own
    files: str | None = None  # folder of the attachments; None: the one that holds the rows
    on_bad_row: str = "refuse"

    def check(self) -> None:
        """Check the settings on their own, before the data are read; raise UserError if they contradict one another."""
        if self.on_bad_row not in ("refuse", "skip"):
            raise UserError(f"data.on_bad_row={self.on_bad_row} does not exist: use refuse or skip.")
        self._choose_columns()
        read_labels(self)
        if self.files is not None and not Path(self.files).is_dir():
            raise UserError(
                f"data.files={self.files} is not a folder: give the one that holds the attachments, or leave it out."
            )

    def build_split(self, rows: Sequence[Row], file: Path | None) -> Split:
        """Return the samples of rows, which are from `file` or, without one, in memory. UserError: as `read_rows`."""
        columns = AS_GAIA
        if there := dict.fromkeys(name for row in rows if isinstance(row.content, dict) for name in row.content):
            columns = self.find_columns(there, str(file or "the list of samples"))
        folder = Path(self.files or (file.parent if file else "."))
        return read_rows(rows, Attachments(folder, metadata=file), self.on_bad_row, columns)

    def find_columns(self, there: Collection[str], source: str) -> FoundColumns:
        """Return the column of every key, None where the data have no such column and need not have it.

        `there` are the columns of the data, `source` their name for the user. UserError: columns that should be there
        are not, or several might be meant; it lists those that are.
        """
        inputs, tags, chosen = parse_inputs(self.inputs), tuple(map(str, self.tags)), self._choose_columns()
        listed = f"its columns are: {', '.join(there) or 'none'}."
        target = [self.target_column] if self.target_column else []
        for key, columns in {"target_column": target, "tags": tags, "inputs": inputs.values()}.items():
            if missing := [repr(each) for each in columns if each not in there]:
                raise UserError(f"{source} has no column {_join(missing)}, which data.{key} names; {listed}")
        taken = {column for key, column in chosen.items() if column != GAIA_COLUMNS[key]} | set(inputs.values())
        found, problems, notes = dict[str, str | None](), dict[str, str](), list[str]()
        for key, column in chosen.items():
            usual = [name for name in there if normalise_column(name) in USUAL[key] and name not in taken]
            if column is None or column in there:
                found[key] = column
            elif column != GAIA_COLUMNS[key]:
                problems[key] = f"no column {column!r}"
            elif len(usual) > 1:
                problems[key] = f"several columns that may be the {key} ({', '.join(usual)})"
            elif not usual and (key == "question" or (key == "answer" and self.needs_target)):
                problems[key] = f"no column for the {key} ({', '.join((column, *USUAL[key][1:]))})"
            else:
                found[key] = usual[0] if usual else None
                if usual and normalise_column(usual[0]) != USUAL[key][0]:
                    notes.append(f"{key} = {usual[0]!r}")
        if problems:
            options = [f"data.columns.{key}=…{'' if key == 'question' else ' (null: none)'}" for key in problems]
            raise UserError(
                f"{source} has {_join(problems.values())}: name what it has with {_join(options)}; {listed}"
            )
        if notes:
            notes = [f"columns found by their usual names: {', '.join(notes)} (others: data.columns.KEY=NAME)"]
        if are_made := found["id"] is None and chosen["id"] is not None:
            notes.append("ids are made from the questions, since there is no column of ids")
        if found["answer"] is None and chosen["answer"] is not None:
            notes.append(f"unscored, for there is no column {chosen['answer']!r} (data.columns.answer=NAME)")
        return FoundColumns(found, are_made, tuple(notes), inputs, read_labels(self), tags)

    def _choose_columns(self) -> dict[str, str | None]:
        """Return GAIA's column names, with those given in their place; with inputs, without the question."""
        if unknown := sorted(set(self.columns) - set(GAIA_COLUMNS)):
            raise UserError(f"data.columns has no key {unknown[0]!r}: use some of {', '.join(GAIA_COLUMNS)}.")
        chosen, inputs = GAIA_COLUMNS | dict(self.columns), parse_inputs(self.inputs)
        chosen["answer"] = self.target_column or chosen["answer"]
        if inputs:
            chosen["question"] = None
        elif not chosen["question"]:
            raise UserError("data.columns.question is empty: name the column that holds the questions.")
        read = [(f"data.columns.{key}", column) for key, column in chosen.items() if key != "answer" and column]
        for name, column in [*read, *(("data.inputs", column) for column in inputs.values())]:
            if column == chosen["answer"]:
                raise UserError(
                    f"{name} and data.columns.answer are both {column!r}, which would show the gold answers of the "
                    "target column: name another column for one of them."
                )
        return chosen


def parse_inputs(inputs: object) -> dict[str, str]:
    """Return the column of each input field, in order. UserError: neither a list of columns nor a mapping."""
    if inputs is None:
        return {}
    named = inputs if isinstance(inputs, list | tuple) else ()
    columns = inputs if isinstance(inputs, Mapping) else {each: each for each in named}
    if not columns or not all(str(name or "").strip() for pair in columns.items() for name in pair):
        raise UserError(
            f"data.inputs={inputs} cannot be read; expected a list of columns, such as data.inputs=[title,body], or "
            "'data.inputs={field: column}' where the names differ."
        )
    return {str(name): str(column) for name, column in columns.items()}


def _join(words: Iterable[str]) -> str:
    *first, last = words
    return " and ".join(filter(None, [", ".join(first), last]))


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
        file = attachments.metadata or attachments.folder
        if not bad:
            raise UserError(f"{file} has no rows: it is empty, or has a header alone.")
        raise UserError(f"No rows are left in {file}: all {len(bad)} are bad, the first one being {bad[0]}.")
    return Split(tuple(samples.values()), tuple(bad), columns.notes)


def _build_sample(row: Row, number: int, attachments: Attachments, columns: FoundColumns) -> Sample:
    if row.problem is not None:
        raise BadRowError(row.problem)
    if not isinstance(row.content, Mapping):
        raise BadRowError(f"the row is {name_type(row.content)}, not an object with columns")
    cells, names = row.content, columns.names
    name = _read(cells, names["file"], "text")
    inputs = {field: _read(cells, column, "input") for field, column in columns.inputs.items()}
    question = _describe(inputs) if inputs else _read(cells, names["question"], "text")
    sample_id = _make_id(question, name) if columns.ids_from_questions else str(number)
    if names["id"]:
        sample_id = _read(cells, names["id"], "number")
    for column, text in ((names["question"], question), (names["id"], sample_id)):
        if column and not text.strip():
            raise BadRowError(f"{column!r} is missing or empty")
    target = _read(cells, names["answer"], "target")
    is_scored = target not in ("", NO_GOLD)
    if is_scored and columns.labels and normalise_question(target) not in map(normalise_question, columns.labels):
        raise BadRowError(f"the target {target!r} is not one of data.labels={','.join(columns.labels)}")
    return Sample(
        id=sample_id,
        question=question,
        file=attachments.find(name) if name else None,
        target=target if is_scored else None,
        level=_read(cells, names["level"], "number") or None,
        tags={"kind": classify_attachment(name)} | {tag: _read(cells, tag, "number") or "none" for tag in columns.tags},
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


def _read(row: Cells, column: str | None, kind: Literal["text", "number", "target", "input"]) -> str:
    """Return a value as text, without blanks around it unless it is read by a program; empty if it is missing.

    `column`: None: there is no such column. `kind`: text alone; or a number, which loses the ".0" of Parquet's float
    columns; a target may be a bool as well, spelt as a program's typed output is; an input is anything that JSON has.
    """
    value = row.get(column) if column else None
    if isinstance(value, BadRowError):
        raise BadRowError(f"{column!r} {value}")
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):  # no store or model accepts it
        raise BadRowError(f"{column!r} holds half a character (a lone surrogate)")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    expected = "text" if kind == "text" else "text or a number"
    if isinstance(value, str):
        return value.strip() if kind in ("number", "target") else value
    if kind == "input":
        try:
            return json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            expected = "text, a number, or a list or object of them"
    elif kind != "text":
        if isinstance(value, float):
            return str(int(value)) if value.is_integer() else str(value)
        if isinstance(value, int) and (kind == "target" or not isinstance(value, bool)):
            return str(value)
        if isinstance(value, list | dict):
            expected += " (a list or an object: give it as JSON text)"
    raise BadRowError(f"{column!r} must be {expected}, and is {name_type(value)}")
