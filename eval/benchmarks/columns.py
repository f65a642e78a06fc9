"""Mapping of a dataset's columns: GAIA's names, names of the user, or else the usual names of such columns.

ColumnSettings().find_columns(["input", "target"], "x.csv").names["answer"]      # "target"
ColumnSettings(columns={"answer": "gold"}).find_columns(["input"], "x.csv")      # UserError: x.csv has no column 'gold'
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.benchmarks.dataset import list_names, parse_labels
from mas.runtime.errors import UserError

GAIA_COLUMNS = {
    "id": "task_id",
    "question": "Question",
    "answer": "Final answer",
    "level": "Level",
    "file": "file_name",
}
USUAL = {  # in lower case, with a space for each _
    "id": ("task id", "id", "question id"),
    "question": ("question", "input", "prompt", "problem"),
    "answer": ("final answer", "answer", "target", "expected", "expected answer", "expected output"),
    "level": ("level",),
    "file": ("file name", "filename", "file", "attachment"),
}
_WITHOUT = {"id": "to number the rows", "answer": "to run unscored", "level": "to do without", "file": "to do without"}

ON_BAD_ROW = ("refuse", "skip")

Columns = Mapping[str, str | None]  # key of GAIA_COLUMNS → column of the data; None: the data have none


@dataclass(frozen=True)
class FoundColumns:
    """The column of every key in some data, and notes about it."""

    names: Columns
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

    columns: dict[str, str | None] = field(default_factory=lambda: dict(GAIA_COLUMNS))
    inputs: Any = None  # [column, …] or {field: column}: named inputs instead of one question; None: the question
    target_column: str | None = None  # the same as columns.answer
    labels: list[Any] = field(default_factory=list)  # the targets that there are; empty: any
    tags: list[Any] = field(default_factory=list)  # columns whose values are categories with numbers of their own
    files: str | None = None  # folder of the attachments; None: the one that holds the rows
    on_bad_row: str = "refuse"

    def check(self) -> None:
        """Check the settings on their own, before the data are read.

        Raises:
            UserError: they contradict one another, or name something that does not exist.
        """
        check_on_bad_row(self.on_bad_row)
        self._complete_columns()
        parse_labels(self.labels)
        parse_tags(self.tags)
        if self.files is not None and not Path(self.files).is_dir():
            raise UserError(
                f"data.files={self.files} is not a folder: give the one that holds the attachments, or leave it out."
            )

    def find_columns(self, there: Collection[str], source: str, needs_target: bool = True) -> FoundColumns:
        """Return the column of every key, None where the data have no such column and need not have it.

        Args:
            there: the columns of the data.
            source: name of the data for the user.
            needs_target: whether there must be a column of targets.

        Raises:
            UserError: columns that should be there are not, or several might be meant; it lists those that are.
        """
        tags, inputs, complete = parse_tags(self.tags), parse_inputs(self.inputs), self._complete_columns()
        listed = f"its columns are: {', '.join(there) or 'none'}."
        fields = {column: "" if name == column else f" ({name})" for name, column in inputs.items()}
        for key, columns in (("target_column", filter(None, [self.target_column])), ("tags", tags), ("inputs", fields)):
            if missing := [f"{each!r}{fields.get(each, '')}" for each in columns if each not in there]:
                raise UserError(f"{source} has no column {_join(missing)}, which data.{key} names; {listed}")
        named = {column for key, column in complete.items() if column != GAIA_COLUMNS[key]} | set(inputs.values())
        found: dict[str, str | None] = {}
        problems: dict[str, str] = {}
        for key, column in complete.items():
            usual = [name for name in there if normalise_column(name) in USUAL[key] and name not in named]
            if column is None or column in there:
                found[key] = column
            elif column != GAIA_COLUMNS[key]:
                problems[key] = f"no column {column!r}"
            elif len(usual) > 1:
                problems[key] = f"several columns that may be the {key} ({', '.join(usual)})"
            elif not usual and (key == "question" or (key == "answer" and needs_target)):
                problems[key] = f"no column for the {key} ({', '.join((column, *USUAL[key][1:]))})"
            else:
                found[key] = usual[0] if usual else None
        if problems:
            options = [
                f"data.columns.{key}=…{f' (null {_WITHOUT[key]})' if key in _WITHOUT else ''}" for key in problems
            ]
            raise UserError(
                f"{source} has {_join(problems.values())}: name what it has with {_join(options)}; {listed}"
            )
        made = found["id"] is None and complete["id"] is not None
        notes = _list_notes(complete, found, made)
        return FoundColumns(found, made, notes, inputs, parse_labels(self.labels), tags)

    def _complete_columns(self) -> dict[str, str | None]:
        """Return GAIA's column names, with those given in their place; with inputs, without the question.

        Raises:
            UserError: a key that is not one of GAIA_COLUMNS, no question, or the gold answers are read as something
                else, too.
        """
        if unknown := sorted(set(self.columns) - set(GAIA_COLUMNS)):
            raise UserError(f"data.columns has no key {unknown[0]!r}: use some of {', '.join(GAIA_COLUMNS)}.")
        complete, inputs = GAIA_COLUMNS | dict(self.columns), parse_inputs(self.inputs)
        if self.target_column is not None:
            if complete["answer"] not in (GAIA_COLUMNS["answer"], self.target_column):
                raise UserError(
                    f"data.target_column={self.target_column} and data.columns.answer={complete['answer']} both name "
                    "the target: leave one of them out."
                )
            complete["answer"] = self.target_column
        if inputs:
            if complete["question"] not in (GAIA_COLUMNS["question"], None):
                raise UserError(
                    f"data.columns.question={complete['question']} and data.inputs={','.join(inputs)} both name what "
                    "is asked: leave one of them out."
                )
            complete["question"] = None
        elif not complete["question"]:
            raise UserError("data.columns.question is empty: name the column that holds the questions.")
        read = [(f"data.columns.{key}", column) for key, column in complete.items() if key != "answer" and column]
        for name, column in [*read, *(("data.inputs", column) for column in inputs.values())]:
            if column == complete["answer"]:
                raise UserError(
                    f"{name} and data.columns.answer are both {column!r}, which would show the gold answers of the "
                    "target column: name another column for one of them."
                )
        return complete


def check_on_bad_row(on_bad_row: str) -> None:
    """Raise UserError for a value that does not exist."""
    if on_bad_row not in ON_BAD_ROW:
        raise UserError(f"data.on_bad_row={on_bad_row} does not exist: use one of {', '.join(ON_BAD_ROW)}.")


def parse_inputs(inputs: object) -> dict[str, str]:
    """Return the column of each input field, in order.

    Raises:
        UserError: neither a list of columns nor a mapping.
    """
    if inputs is None:
        return {}
    if isinstance(inputs, str):
        inputs = [inputs]
    pairs = list(inputs.items()) if isinstance(inputs, Mapping) else [(each, each) for each in list_names(inputs)]
    if not pairs or not all(str(name or "").strip() for pair in pairs for name in pair):
        raise UserError(
            f"data.inputs={inputs} cannot be read; expected a list of columns, such as data.inputs=[title,body], or "
            "'data.inputs={field: column}' where the names differ."
        )
    return {str(name): str(column) for name, column in pairs}


def parse_tags(tags: object) -> tuple[str, ...]:
    """Return the columns of `data.tags`.

    Raises:
        UserError: no list of different names.
    """
    names = [str(each).strip() for each in list_names(tags)]
    if tags and (not names or "" in names or len(set(names)) < len(names)):
        raise UserError(
            f"data.tags={tags} cannot be read; expected a list of different columns, such as data.tags=[kind,source]."
        )
    return tuple(names)


def normalise_column(name: object) -> str:
    """Return a column's name as `USUAL` has it."""
    return str(name).strip().casefold().replace("_", " ")


def _join(words: Iterable[str]) -> str:
    *first, last = words
    return " and ".join(filter(None, [", ".join(first), last]))


def _list_notes(complete: Columns, found: Columns, made: bool) -> tuple[str, ...]:
    notes = []
    others = {key: name for key, name in found.items() if name and name != complete[key]}
    if usual := [f"{key} = {name!r}" for key, name in others.items() if normalise_column(name) != USUAL[key][0]]:
        notes.append(f"columns found by their usual names: {', '.join(usual)} (others: data.columns.KEY=NAME)")
    if made:
        notes.append("ids are made from the questions, since there is no column of ids")
    if found["answer"] is None and (wanted := complete["answer"]) is not None:
        notes.append(f"unscored, for there is no column {wanted!r} (data.columns.answer=NAME)")
    return tuple(notes)
