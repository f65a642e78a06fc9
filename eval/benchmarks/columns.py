"""Columns of the user's data: those that are named, GAIA's, or else the usual names of such columns.

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

    columns: dict[str, str | None] = field(default_factory=lambda: dict(GAIA_COLUMNS))
    inputs: Any = None  # [column, …] or {field: column}: named inputs instead of one question; None: the question
    target_column: str | None = None  # instead of columns.answer
    labels: list[Any] = field(default_factory=list)  # the targets that there are; empty: any
    tags: list[Any] = field(default_factory=list)  # columns whose values are categories with numbers of their own
    files: str | None = None  # folder of the attachments; None: the one that holds the rows
    on_bad_row: str = "refuse"

    def check(self) -> None:
        """Check the settings on their own, before the data are read; raise UserError if they contradict one another."""
        check_on_bad_row(self.on_bad_row)
        self._choose_columns()
        parse_labels(self.labels)
        parse_tags(self.tags)
        if self.files is not None and not Path(self.files).is_dir():
            raise UserError(
                f"data.files={self.files} is not a folder: give the one that holds the attachments, or leave it out."
            )

    def find_columns(self, there: Collection[str], source: str, needs_target: bool = True) -> FoundColumns:
        """Return the column of every key, None where the data have no such column and need not have it.

        `there` are the columns of the data, `source` their name for the user. UserError: columns that should be there
        are not, or several might be meant; it lists those that are.
        """
        inputs, tags, chosen = parse_inputs(self.inputs), parse_tags(self.tags), self._choose_columns()
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
            elif not usual and (key == "question" or (key == "answer" and needs_target)):
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
        return FoundColumns(found, are_made, tuple(notes), inputs, parse_labels(self.labels), tags)

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


def check_on_bad_row(on_bad_row: str) -> None:
    """Raise UserError for a value that does not exist."""
    if on_bad_row not in ("refuse", "skip"):
        raise UserError(f"data.on_bad_row={on_bad_row} does not exist: use refuse or skip.")


def parse_inputs(inputs: object) -> dict[str, str]:
    """Return the column of each input field, in order. UserError: neither a list of columns nor a mapping."""
    if inputs is None:
        return {}
    columns = inputs if isinstance(inputs, Mapping) else {each: each for each in list_names(inputs)}
    if not columns or not all(str(name or "").strip() for pair in columns.items() for name in pair):
        raise UserError(
            f"data.inputs={inputs} cannot be read; expected a list of columns, such as data.inputs=[title,body], or "
            "'data.inputs={field: column}' where the names differ."
        )
    return {str(name): str(column) for name, column in columns.items()}


def parse_tags(tags: object) -> tuple[str, ...]:
    """Return the columns of `data.tags`; raise UserError for no list of names."""
    names = tuple(str(each).strip() for each in list_names(tags))
    if tags and not all(names or [""]):
        raise UserError(
            f"data.tags={tags} cannot be read; expected a list of columns, such as data.tags=[kind,source]."
        )
    return names


def normalise_column(name: object) -> str:
    """Return a column's name as `USUAL` has it."""
    return str(name).strip().casefold().replace("_", " ")


def _join(words: Iterable[str]) -> str:
    *first, last = words
    return " and ".join(filter(None, [", ".join(first), last]))
