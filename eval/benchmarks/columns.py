"""Mapping of a dataset's columns: GAIA's names, names of the user, or else the usual names of such columns.

find_columns({}, ["input", "target"], "x.csv").names["answer"]      # "target"
find_columns({"answer": "gold"}, ["input", "target"], "x.csv")      # UserError: x.csv has no column 'gold': …
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from eval.benchmarks.fingerprint import normalise_question
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
TABLE = ("question", "answer")  # what a table must have
_WITHOUT = {"id": "to number the rows", "answer": "to run unscored", "level": "to do without", "file": "to do without"}

Columns = Mapping[str, str | None]  # key of GAIA_COLUMNS → column of the data; None: the data have none
Inputs = Mapping[str, str]  # named input field of the program → column of the data


@dataclass(frozen=True)
class FoundColumns:
    """The column of every key in some data, and notes about it."""

    names: Columns
    ids_from_questions: bool = False  # without a column for ids; False: the rows are then numbered
    notes: tuple[str, ...] = ()
    inputs: Inputs = field(default_factory=dict)  # empty: the question alone
    labels: tuple[str, ...] = ()  # that targets must be one of; empty: any target
    tags: tuple[str, ...] = ()  # columns that put samples into categories

    def list_used(self) -> list[str]:
        """Return the columns of the data that are read, each once."""
        return list(dict.fromkeys([*filter(None, self.names.values()), *self.inputs.values(), *self.tags]))


AS_GAIA = FoundColumns(GAIA_COLUMNS)


@dataclass(kw_only=True)
class ColumnSettings:
    """Keys that say which columns are read; the same in each file of `conf/data/` for the user's own data."""

    columns: dict[str, str | None] = field(default_factory=lambda: dict(GAIA_COLUMNS))
    inputs: Any = None  # [column, …] or {field: column}: named inputs instead of one question; None: the question
    target_column: str | None = None  # the same as columns.answer
    labels: list[Any] = field(default_factory=list)  # the targets that there are; empty: any
    tags: list[Any] = field(default_factory=list)  # columns whose values are categories with numbers of their own

    def check_columns(self) -> None:
        """Check the settings on their own, before the data are read.

        Raises:
            UserError: they contradict one another, or name something that does not exist.
        """
        complete_columns(self._merge_target(), parse_inputs(self.inputs))
        parse_labels(self.labels)
        parse_tags(self.tags)

    def find_columns(self, there: Collection[str], source: str, enough: Collection[str] = TABLE) -> FoundColumns:
        """Return the column of every key; see the function of this name.

        Raises:
            UserError: columns that should be there are not, or several might be meant.
        """
        tags = parse_tags(self.tags)
        named = [("target_column", self.target_column), *(("tags", tag) for tag in tags)]
        if missing := [(key, column) for key, column in named if column is not None and column not in there]:
            key, column = missing[0]
            columns = ", ".join(there) or "none"
            raise UserError(f"{source} has no column {column!r}, which data.{key} names; its columns are: {columns}.")
        found = find_columns(self._merge_target(), there, source, enough, parse_inputs(self.inputs))
        return replace(found, labels=parse_labels(self.labels), tags=tags)

    def _merge_target(self) -> dict[str, str | None]:
        if self.target_column is None:
            return self.columns
        given = self.columns.get("answer", GAIA_COLUMNS["answer"])
        if given not in (GAIA_COLUMNS["answer"], self.target_column):
            raise UserError(
                f"data.target_column={self.target_column} and data.columns.answer={given} both name the target: leave "
                "one of them out."
            )
        return {**self.columns, "answer": self.target_column}


def parse_inputs(inputs: object) -> dict[str, str]:
    """Return the column of each input field, in order.

    Raises:
        UserError: neither a list of columns nor a mapping, or a field or column is named twice.
    """
    if inputs is None:
        return {}
    if isinstance(inputs, str):
        inputs = [inputs]
    pairs = list(inputs.items()) if isinstance(inputs, Mapping) else [(each, each) for each in _list_names(inputs)]
    if not pairs or not all(str(name or "").strip() for pair in pairs for name in pair):
        raise UserError(
            f"data.inputs={inputs} cannot be read; expected a list of columns, such as data.inputs=[title,body], or "
            "'data.inputs={field: column}' where the names differ."
        )
    columns = [str(column) for _, column in pairs]
    if twice := sorted({column for column in columns if columns.count(column) > 1}):
        fields = ", ".join(str(name) for name, column in pairs if str(column) == twice[0])
        raise UserError(
            f"data.inputs names the column {twice[0]!r} twice (for the fields {fields}): give each field a column of "
            "its own."
        )
    return {str(name): str(column) for name, column in pairs}


def parse_labels(labels: object) -> tuple[str, ...]:
    """Return the labels of `data.labels` as texts, as targets are read.

    Raises:
        UserError: no list of at least two different texts or numbers.
    """
    names = [str(each).strip() for each in _list_names(labels) if isinstance(each, str | int | float)]
    different = {normalise_question(name) for name in names}
    if labels and (len(names) < 2 or "" in different or len(different) < len(_list_names(labels))):
        raise UserError(
            f"data.labels={labels} cannot be read; expected a list of at least two different labels, such as "
            "data.labels=[billing,refund] (case and white space make no difference)."
        )
    return tuple(names)


def parse_tags(tags: object) -> tuple[str, ...]:
    """Return the columns of `data.tags`.

    Raises:
        UserError: no list of different names.
    """
    names = [str(each).strip() for each in _list_names(tags)]
    if tags and (not names or "" in names or len(set(names)) < len(names)):
        raise UserError(
            f"data.tags={tags} cannot be read; expected a list of different columns, such as data.tags=[kind,source]."
        )
    return tuple(names)


def read_labels(data: object) -> tuple[str, ...]:
    """Return the labels that a dataset's settings name; empty: none."""
    return parse_labels(getattr(data, "labels", ()))


def _list_names(inputs: object) -> list[object]:
    return list(inputs) if isinstance(inputs, list | tuple) else []


def complete_columns(columns: Columns, inputs: Inputs | None = None) -> dict[str, str | None]:
    """Return GAIA's column names, with those given in their place; with inputs, without the question.

    Raises:
        UserError: a key that is not one of GAIA_COLUMNS, no question, or the gold answers read as something else too.
    """
    if unknown := sorted(set(columns) - set(GAIA_COLUMNS)):
        raise UserError(f"data.columns has no key {unknown[0]!r}: use some of {', '.join(GAIA_COLUMNS)}.")
    complete = GAIA_COLUMNS | dict(columns)
    if inputs:
        if complete["question"] not in (GAIA_COLUMNS["question"], None):
            raise UserError(
                f"data.columns.question={complete['question']} and data.inputs={','.join(inputs)} both name what is "
                "asked: leave one of them out."
            )
        complete["question"] = None
        if shown := [name for name, column in inputs.items() if column == complete["answer"]]:
            raise UserError(
                f"data.inputs gives the column {complete['answer']!r} to the field {shown[0]!r}, and it is also the "
                "target column, which would show the gold answers: take it out of one of them."
            )
    elif not complete["question"]:
        raise UserError("data.columns.question is empty: name the column that holds the questions.")
    shared = [key for key, column in complete.items() if key != "answer" and column == complete["answer"] is not None]
    if shared:
        raise UserError(
            f"data.columns.{shared[0]} and data.columns.answer are both {complete['answer']!r}, which would show the "
            "gold answers: name another column for one of them."
        )
    return complete


def find_columns(
    columns: Columns,
    there: Collection[str],
    source: str,
    enough: Collection[str] = TABLE,
    inputs: Inputs | None = None,
) -> FoundColumns:
    """Return the complete mapping, None where the data have no such column and need not have it.

    Args:
        columns: as configured; what has GAIA's name counts as not named by the user.
        there: the columns of the data.
        source: name of the data for the user.
        enough: the keys whose columns, as configured, suffice: the usual names of the others are then not looked for,
            so that nobody's questions change. Without them all but the id must be found by their usual names.
        inputs: field → column, instead of the question; other columns are then found by their usual names.

    Raises:
        UserError: columns that should be there are not, or several might be meant; it lists those that are.
    """
    inputs = inputs or {}
    complete = complete_columns(columns, inputs)
    as_configured = not inputs and all(complete[key] is None or complete[key] in there for key in enough)
    named = {column for key, column in complete.items() if column != GAIA_COLUMNS[key]} | set(inputs.values())
    if missing := {name: column for name, column in inputs.items() if column not in there}:
        raise UserError(_describe_missing_inputs(source, missing, there))
    found: dict[str, str | None] = {}
    problems: dict[str, str] = {}
    for key, column in complete.items():
        usual = [name for name in there if normalise_column(name) in USUAL[key] and name not in named]
        if column is None or column in there:
            found[key] = column
        elif column != GAIA_COLUMNS[key]:
            problems[key] = f"no column {column!r}"
        elif as_configured:
            found[key] = None
        elif len(usual) > 1:
            problems[key] = f"several columns that may be the {key} ({', '.join(usual)})"
        elif not usual and key in enough and key != "id":
            problems[key] = f"no column for the {key} ({', '.join((column, *USUAL[key][1:]))})"
        else:
            found[key] = usual[0] if usual else None
    if problems:
        raise UserError(_describe_problems(source, problems, there))
    made = found["id"] is None and complete["id"] is not None and not as_configured
    return FoundColumns(found, made, tuple(_list_notes(complete, found, there, made)), inputs)


def normalise_column(name: object) -> str:
    """Return a column's name as `USUAL` has it."""
    return str(name).strip().casefold().replace("_", " ")


def _describe_problems(source: str, problems: Mapping[str, str], there: Collection[str]) -> str:
    options = [f"data.columns.{key}=…" + (f" (null {_WITHOUT[key]})" if key in _WITHOUT else "") for key in problems]
    return (
        f"{source} has {_join(list(problems.values()))}: name what it has with {_join(options)}; its columns are: "
        f"{', '.join(there) or 'none'}."
    )


def _describe_missing_inputs(source: str, missing: Inputs, there: Collection[str]) -> str:
    listed = _join([repr(column) if name == column else f"{column!r} ({name})" for name, column in missing.items()])
    return (
        f"{source} has no column {listed}, which data.inputs names: correct the name, or say which column holds the "
        f"field with 'data.inputs={{field: column}}'; its columns are: {', '.join(there) or 'none'}."
    )


def _join(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _list_notes(complete: Columns, found: Columns, there: Collection[str], made: bool) -> list[str]:
    notes = []
    others = {key: name for key, name in found.items() if name and name != complete[key]}
    if usual := [f"{key} = {name!r}" for key, name in others.items() if normalise_column(name) != USUAL[key][0]]:
        notes.append(f"columns found by their usual names: {', '.join(usual)} (others: data.columns.KEY=NAME)")
    if made:
        notes.append("ids are made from the questions, since there is no column of ids")
    if found["answer"] is None and (wanted := complete["answer"]) is not None:
        likely = [name for name in there if normalise_column(name) in USUAL["answer"]]
        hint = f"; is it {likely[0]!r}?" if likely else ""
        notes.append(f"unscored, for there is no column {wanted!r}{hint} (data.columns.answer=NAME)")
    return notes
