"""The files a run leaves behind for people and other programs, made from the store; writing them again is safe.

    write_answers(folder, store.final_records())

| File                    | One line, or object, for | Keys                                                | Gold |
|-------------------------|--------------------------|-----------------------------------------------------|------|
| `answers.jsonl`         | each question and epoch  | `task_id, model_answer, reasoning_trace, thread_id` | no   |
| `records.jsonl`         | each row of the store    | those of `eval.runs.record.Record`                       | yes  |
| `correlation_ids.jsonl` | each row of the store    | `task_id, thread_id, epoch, attempt`                | no   |
| `summary.json`          | the run                  | those of `eval.analysis.summary.summary.summarise`         | no
  |

All may be streams: nothing is kept in memory.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from eval.runs.folder import write_lines
from eval.runs.record import Record

ANSWERS, RECORDS, CORRELATION_IDS, SUMMARY = "answers.jsonl", "records.jsonl", "correlation_ids.jsonl", "summary.json"


def write_answers(folder: Path, final: Iterable[Record]) -> None:
    """`final`: the last attempt at each question and epoch, in the dataset's order.

    Raises (as all of this module):
        OSError: the folder cannot be written; a file already there stays as it was.
    """
    write_lines(folder / ANSWERS, (json.dumps(_answer(record)) for record in final))


def write_records(folder: Path, lines: Iterable[str], all_bytes: int) -> None:
    """`lines`: each record as JSON; `all_bytes`: their length in all, newlines included.

    A record never changes: a file of that length is the right one already. It may have hundreds of megabytes.
    """
    path = folder / RECORDS
    if not path.is_file() or path.stat().st_size != all_bytes:
        write_lines(path, lines)


def write_correlation_ids(folder: Path, ids: Iterable[dict[str, Any]]) -> None:
    write_lines(folder / CORRELATION_IDS, (json.dumps(each) for each in ids))


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write `summary.json` alone, as when the MLflow link has become known."""
    write_lines(folder / SUMMARY, [json.dumps(summary, indent=2)])


def _answer(record: Record) -> dict[str, str]:
    unjudged = record.error_component == "scorer"  # the answer stands; only its score is missing
    answered = (record.error is None or unjudged) and record.answer is not None
    return {
        "task_id": record.sample_id,
        "model_answer": str(record.answer) if answered else "",
        "reasoning_trace": record.reasoning_trace,
        "thread_id": record.thread_id,
    }


def load_template(path: Path, filters: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """A Jinja template in which values are escaped, and a missing one is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= dict(filters or {})
    return environment.get_template(path.name)


def load_script(path: Path) -> tuple[Any, str]:
    """A script to be put into a page as it is, and its hash: the page's policy then lets no other one run."""
    from markupsafe import Markup

    text = path.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"
