"""Files of a run made from its database alone, as often as needed; `eval.reports.run_report` adds the page.

`docs/reference/run-folder.md` says what is in each of them. Only records.jsonl holds targets. Records are
streamed: none is kept in memory.
"""

import json
from pathlib import Path

from eval.analysis.attribution.broken_link import RunAttribution, attribute_run
from eval.analysis.summary.summarise import is_planned, summarise_store
from eval.analysis.summary.summary import Summary
from eval.runs.folder import RECORDS, is_in_use, write_lines
from eval.runs.record import Record
from eval.runs.store import RunStore

ANSWERS, CORRELATION_IDS, SUMMARY = "answers.jsonl", "correlation_ids.jsonl", "summary.json"


def write_files(folder: Path, store: RunStore, attribution: RunAttribution | None = None) -> Summary:
    """Write the files, also while the run is going on, and return the summary.

    StoreError: the store cannot be read. OSError: the folder cannot be written; files already there stay as they were.
    """
    folder.mkdir(exist_ok=True)  # a candidate of a tuning run has none yet
    summary = summarise_store(store, attribution or attribute_run(store))
    info, plan = store.read_info(), store.read_plan()
    known = {each.id for each in plan}
    final = (each for each in store.final_records() if is_planned(each, info.epochs, known))
    write_lines(folder / ANSWERS, (json.dumps(_build_answer(record)) for record in final))
    is_whole = store.is_copied() and (folder / RECORDS).exists()
    if not is_whole and not (store.read_only and is_in_use(store.path)):  # its own process appends to the file
        write_lines(folder / RECORDS, store.lines())
    write_lines(folder / CORRELATION_IDS, map(json.dumps, store.correlation_ids()))
    write_lines(folder / SUMMARY, [json.dumps(summary.to_dict(), indent=2)])
    return summary


def _build_answer(record: Record) -> dict[str, str]:
    unjudged = record.error_component == "scorer"  # the answer is valid; only its score is missing
    answered = (record.error is None or unjudged) and record.answer is not None
    return {
        "task_id": record.sample_id,
        "model_answer": str(record.answer) if answered else "",
        "reasoning_trace": record.reasoning_trace,
        "thread_id": record.thread_id,
    }
