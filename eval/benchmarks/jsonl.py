"""Dataset of the user: `metadata.jsonl` or `metadata.parquet` in the folder of its attachments.

The same layout as GAIA's and as Hugging Face's file folders; one sub-folder a split if there are several.

    my_folder/metadata.jsonl     {"task_id": "1", "Question": "What is sold most?", "file_name": "sales.csv", …}
    my_folder/sales.csv

    JsonlDataset(path="my_folder").load("all").samples[0].file      # …/my_folder/sales.csv
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eval.benchmarks.rows import Row, Table, TableDataset
from mas.runtime.errors import UserError

METADATA = ("metadata.jsonl", "metadata.parquet")
ONLY_SPLIT = "all"  # the name of a split that has no sub-folder of its own


@dataclass
class JsonlDataset(TableDataset):
    """The keys of `conf/data/jsonl.yaml`, explained there."""

    path: str
    name: str = "jsonl"
    default_split: str = ONLY_SPLIT

    def check(self) -> None:
        super().check()
        self._list_splits()

    def open_table(self, split: str) -> Table:
        splits = self._list_splits()
        if split == ONLY_SPLIT and len(splits) == 1:
            split = next(iter(splits))
        if split not in splits:
            raise UserError(
                f"{self.path} has no split {split!r}: give one that it has with split=…: {', '.join(splits)}."
            )
        metadata = splits[split]
        rows = list(read_metadata(metadata))
        keys = {str(key): None for row in rows if isinstance(row.content, dict) for key in row.content}
        return Table(str(metadata), keys or None, lambda columns: rows, self.find_folder(metadata), needs_target=False)

    def _list_splits(self) -> dict[str, Path]:
        """Return the metadata file of each split.

        Raises:
            UserError: nothing that can be read at `path`.
        """
        path = Path(self.path)
        if path.is_file():
            return {ONLY_SPLIT: _check_ending(path)}
        if not path.is_dir():
            nearest = next(parent for parent in path.absolute().parents if parent.is_dir())
            raise UserError(
                f"data.path={self.path} does not exist under {Path.cwd()}: give a folder with"
                f" {' or '.join(METADATA)}; in {nearest} there is {_list_folder(nearest)}."
            )
        folders = {folder.name: folder for folder in sorted(path.iterdir()) if folder.is_dir()}
        found = {name: _find_in(folder) for name, folder in ({ONLY_SPLIT: path} | folders).items()}
        if splits := {name: metadata for name, metadata in found.items() if metadata}:
            return splits
        raise UserError(
            f"data.path={self.path} holds no {METADATA[0]} or {METADATA[1]}, nor has a sub-folder with one: add it, or"
            f" give another folder; there is {_list_folder(path)}."
        )


def read_metadata(metadata: Path) -> Iterator[Row]:
    """Yield the rows of a .jsonl or .parquet file, each with its place.

    Raises:
        UserError: a Parquet file that cannot be read (a malformed JSON line is a bad row instead).
    """
    if metadata.suffix == ".parquet":
        yield from _read_parquet(metadata)
        return
    # Bytes, since splitting text would also break at U+2028 inside a question, and one line's encoding is one bad row.
    for number, line in enumerate(metadata.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        place = f"{metadata}, line {number}"
        if not line.strip():
            continue
        try:
            yield Row(place, json.loads(line.decode("utf-8")))
        except UnicodeDecodeError:
            yield Row(place, problem="the line is not UTF-8")
        except (ValueError, RecursionError) as error:
            yield Row(place, problem=f"the line is not JSON ({error})")


def _read_parquet(metadata: Path) -> Iterator[Row]:
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        rows = pyarrow.parquet.read_table(metadata).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{metadata} cannot be read as Parquet ({type(error).__name__}): write it again.") from error
    for number, content in enumerate(rows, start=1):
        yield Row(f"{metadata}, row {number}", content)


def _find_in(folder: Path) -> Path | None:
    found = [folder / name for name in METADATA if (folder / name).is_file()]
    if len(found) > 1:
        raise UserError(
            f"{folder} holds both {METADATA[0]} and {METADATA[1]}: remove one, or give data.path={found[0]}."
        )
    return found[0] if found else None


def _check_ending(file: Path) -> Path:
    if file.suffix not in (".jsonl", ".parquet"):
        raise UserError(
            f"data.path={file} must end in .jsonl or .parquet, or be a folder with {' or '.join(METADATA)}"
            f"{'; for this file give data=csv' if file.suffix == '.csv' else ''}."
        )
    return file


def _list_folder(folder: Path, most: int = 10) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "nothing") + rest
