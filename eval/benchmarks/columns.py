"""Which column of the data holds what: GAIA's names, or one's own in their place.

complete_columns({"question": "prompt"})["question"]                     # "prompt"
found_columns({"answer": "label"}, ["prompt", "label"], "x.csv")         # UserError: x.csv has no column 'Question'
"""

from collections.abc import Collection, Mapping

from mas.errors import UserError

GAIA_COLUMNS = {
    "id": "task_id",
    "question": "Question",
    "answer": "Final answer",
    "level": "Level",
    "file": "file_name",
}
OPTIONAL = ("id", "level", "file")  # their usual columns may be absent; a column that the user named may not

Columns = Mapping[str, str | None]  # key of GAIA_COLUMNS → column of the data; None: the data has none


def complete_columns(columns: Columns) -> dict[str, str | None]:
    """GAIA's column names, with those given in their place.

    Raises:
        UserError: a key that is not one of GAIA_COLUMNS, no question, or the gold answers read as something else too.
    """
    if unknown := sorted(set(columns) - set(GAIA_COLUMNS)):
        raise UserError(f"data.columns has no key {unknown[0]!r}: use some of {', '.join(GAIA_COLUMNS)}.")
    complete = GAIA_COLUMNS | dict(columns)
    if not complete["question"]:
        raise UserError("data.columns.question is empty: name the column that holds the questions.")
    shared = [key for key, column in complete.items() if key != "answer" and column == complete["answer"] is not None]
    if shared:
        raise UserError(
            f"data.columns.{shared[0]} and data.columns.answer are both {complete['answer']!r}, which would show the "
            "gold answers: name another column for one of them."
        )
    return complete


def found_columns(
    columns: Columns, there: Collection[str], source: str, optional: Collection[str] = OPTIONAL
) -> dict[str, str | None]:
    """The complete mapping, None where the data has no such column and need not have it.

    Args:
        columns: as configured.
        there: the columns that the data has.
        source: what the user knows the data by.
        optional: keys whose column of GAIA's name may be absent.

    Raises:
        UserError: a column that should be there is not; it lists those that are.
    """
    found = complete_columns(columns)
    for key, column in found.items():
        if column is None or column in there:
            continue
        if key not in optional or column != GAIA_COLUMNS[key]:
            raise UserError(
                f"{source} has no column {column!r} (data.columns.{key}): give one that it has with "
                f"data.columns.{key}=…{_without(key)}: {', '.join(there) or 'there are none'}."
            )
        found[key] = None
    return found


def _without(key: str) -> str:
    meaning = {"id": "number the rows", "answer": "run unscored", "level": "do without", "file": "do without"}
    return f", or null to {meaning[key]}" if key in meaning else ""
