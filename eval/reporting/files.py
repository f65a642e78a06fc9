"""The files a run leaves behind for people and other programs, made from the store; writing them again is safe.

    write_files(folder, store.records(), summary, example_ids)

| File            | One line, or object, for   | Keys                                                 | Gold answers |
|-----------------|----------------------------|------------------------------------------------------|--------------|
| `answers.jsonl` | each question and epoch    | `task_id, model_answer, reasoning_trace, thread_id`  | no           |
| `records.jsonl` | each row of the store      | those of `eval.record.Record`                        | yes          |
| `summary.json`  | the run                    | those of `eval.reporting.summary.summarise`          | no           |
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from eval.record import Record
from eval.reporting.summary import final_attempts
from eval.store import plain

ANSWERS, RECORDS, SUMMARY = "answers.jsonl", "records.jsonl", "summary.json"


def write_files(
    folder: Path, records: Iterable[Record], summary: dict[str, Any], example_ids: Sequence[str] = ()
) -> None:
    """Write all three. `example_ids` is the dataset's order; records of other ids follow in the given order.

    Raises:
        OSError: the folder cannot be written; files already there stay as they were.
    """
    rows = list(records)
    _write_lines(folder / ANSWERS, (_answer(record) for record in _in_order(final_attempts(rows), example_ids)))
    _write_lines(folder / RECORDS, (plain(vars(record)) for record in rows))
    write_summary(folder, summary)


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write `summary.json` alone, as when the MLflow link has become known."""
    _write_atomically(folder / SUMMARY, [json.dumps(summary, indent=2) + "\n"])


def _in_order(records: list[Record], example_ids: Sequence[str]) -> list[Record]:
    """The dataset's order, not that in which concurrent questions happened to finish; epochs of one stay together."""
    place = {example_id: place for place, example_id in enumerate(dict.fromkeys(example_ids))}
    for record in records:
        place.setdefault(record.example_id, len(place))
    return sorted(records, key=lambda record: (place[record.example_id], record.epoch))


def _answer(record: Record) -> dict[str, str]:
    unjudged = record.error_component == "scorer"  # the answer stands; only its score is missing
    answered = (record.error is None or unjudged) and record.answer is not None
    return {
        "task_id": record.example_id,
        "model_answer": str(record.answer) if answered else "",
        "reasoning_trace": record.reasoning_trace,
        "thread_id": record.thread_id,
    }


def _write_lines(path: Path, objects: Iterable[dict[str, Any]]) -> None:
    _write_atomically(path, (json.dumps(each) + "\n" for each in objects))


def _write_atomically(path: Path, lines: Iterable[str]) -> None:
    """A reader sees the old file or the new one, never a half of either."""
    unfinished = path.with_name(path.name + ".tmp")
    try:
        with unfinished.open("w", encoding="ascii", newline="\n") as file:  # JSON escapes the rest, surrogates too
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
