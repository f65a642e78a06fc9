"""Dataset of questions with a gold query each, in the layout of BIRD or Spider: a JSON list and SQLite files.

    my_folder/dev.json                                [{"question": "…", "db_id": "shop", "SQL": "SELECT …"}, …]
    my_folder/dev_databases/shop/shop.sqlite

    Text2SqlDataset(path="my_folder").load("dev").samples[0].inputs     # {"question": "…", "database": "shop"}

Spider names the query `query`. BIRD's `evidence` becomes part of the request, its `difficulty` the level. Scored by
execution match (`eval.scorers.expected`): the order of rows counts where the gold query itself ends in ORDER BY.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eval.benchmarks.columns import check_on_bad_row
from eval.benchmarks.dataset import EXPECTED, Dataset, Sample, Split
from eval.benchmarks.rows import BadRowError, refuse_bad_rows
from mas.runtime.errors import UserError
from mas.runtime.text import name_type

QUERY_COLUMNS = ("SQL", "query")
ENDINGS = (".sqlite", ".db", ".sqlite3")


@dataclass
class Text2SqlDataset(Dataset):
    """The keys of `conf/data/text2sql.yaml`, explained there."""

    path: str
    databases: str | None = None
    on_bad_row: str = "refuse"
    name: str = "text2sql"
    default_split: str = "dev"

    def check(self) -> None:
        """Raise UserError if there is no such folder, or a value does not exist."""
        check_on_bad_row(self.on_bad_row)
        for key, folder in (("path", self.path), ("databases", self.databases or self.path)):
            if not Path(folder).is_dir():
                raise UserError(f"data.{key}={folder} is not a folder; give the one with the questions' JSON files.")

    def load(self, split: str) -> Split:
        """Read `split.json`.

        Raises:
            UserError: no such file, or an entry is bad and bad ones are refused.
        """
        self.check()
        file = Path(self.path) / f"{split}.json"
        known = {each.stem for each in find_databases(Path(self.databases or self.path))}
        samples, bad = [], []
        for number, entry in enumerate(_read_list(file), start=1):
            try:
                samples.append(_build_sample(entry, number, known))
            except BadRowError as error:
                bad.append(f"{file.name}, entry {number}: {error}")
        refuse_bad_rows(bad, self.on_bad_row)
        if not samples:
            raise UserError(f"{file} has no question that can be used; {bad[0] if bad else 'its list is empty'}.")
        return Split(tuple(samples), tuple(bad))


def find_databases(folder: Path) -> list[Path]:
    """Return the SQLite files below a folder that are named like their own folder, or are in the folder itself."""
    files = sorted(file for ending in ENDINGS for file in folder.rglob(f"*{ending}"))
    return [file for file in files if file.parent == folder or file.parent.name == file.stem]


def _read_list(file: Path) -> list[object]:
    if not file.is_file():
        there = ", ".join(sorted(each.stem for each in file.parent.glob("*.json"))) or "none"
        raise UserError(f"{file} is not there; give one of the folder's JSON files with split=…: {there}.")
    try:
        found = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not JSON ({error}); expected a list of questions.") from error
    if not isinstance(found, list):
        raise UserError(f"{file} holds {name_type(found)}; expected a list of questions.")
    return found


def _build_sample(entry: object, number: int, known: set[str]) -> Sample:
    if not isinstance(entry, Mapping):
        raise BadRowError(f"it is {name_type(entry)}, not an object")
    query = next((entry[name] for name in QUERY_COLUMNS if entry.get(name)), None)
    texts = {"question": entry.get("question"), "db_id": entry.get("db_id"), "SQL or query": query}
    if missing := [name for name, text in texts.items() if not isinstance(text, str) or not text.strip()]:
        raise BadRowError(f"{missing[0]} is missing or no text")
    question, database = str(entry["question"]).strip(), str(entry["db_id"])
    if database not in known:
        raise BadRowError(f"data.databases has no database {database!r}")
    evidence = {"evidence": str(entry["evidence"])} if entry.get("evidence") else {}
    table = {"database": database, "query": query, "ordered": _is_ordered(str(query)), "extra_columns": False}
    return Sample(
        id=str(entry.get("question_id", number)),
        question=question,
        target=str(query),
        level=str(entry["difficulty"]) if entry.get("difficulty") else None,
        tags={"database": database, EXPECTED: json.dumps({"tables": [table]}, ensure_ascii=False)},
        inputs={"question": question, "database": database, **evidence},
    )


def _is_ordered(query: str) -> bool:
    """Return whether the query orders its result; an ORDER BY in a subquery, window or aggregate does not."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return sqlglot.parse_one(query, read="sqlite").args.get("order") is not None
    except (SqlglotError, RecursionError):
        return False
