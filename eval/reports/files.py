"""Every file of a run except its database and its logs, made from the database alone, as often as needed.

`docs/reference/run-folder.md` says what is in each of them. Only records.jsonl and report.html hold targets. Records
are streamed: none is kept in memory.
"""

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path

from eval.analysis.attribution.run_attribution import attribute_run, read_with_steps
from eval.analysis.human_review import attach_labels, find_gold_folder
from eval.analysis.summary.from_store import read_missing, summarise_store
from eval.analysis.summary.summarise import is_planned
from eval.analysis.summary.summary import Summary
from eval.reports.notes import describe_run
from eval.runs.folder import RECORDS, REPORT, write_lines
from eval.runs.mlflow_state import read_link
from eval.runs.record import Record
from eval.runs.store import RunStore

ANSWERS, CORRELATION_IDS, SUMMARY = "answers.jsonl", "correlation_ids.jsonl", "summary.json"


def write_reports(folder: Path, store: RunStore) -> Summary:
    """Write all files, also while the run is going on, and return the summary.

    Raises:
        StoreError: the store cannot be read.
        OSError: the folder cannot be written; files already there stay as they were.
    """
    from eval.reports.run_report.page import limit_questions, write_report  # pages are loaded where one is written

    folder.mkdir(exist_ok=True)  # a candidate of a tuning run has none yet
    attribution = attribute_run(store)
    summary = replace(summarise_store(store, attribution), mlflow=read_link(folder))
    info, plan = store.read_info(), store.read_plan()
    known = {each.id for each in plan}
    final = (each for each in store.final_records() if is_planned(each, info.epochs, known))
    write_lines(folder / ANSWERS, (json.dumps(_build_answer(record)) for record in final))
    if not (store.is_copied() and (folder / RECORDS).exists()):
        write_lines(folder / RECORDS, store.lines())
    write_lines(folder / CORRELATION_IDS, map(json.dumps, store.correlation_ids()))
    write_summary(folder, summary)
    shown = {each.id for each in plan[: limit_questions(info.epochs)]}
    last = read_with_steps(store, lambda key: key[0] in shown and key[1] <= info.epochs)
    gold = find_gold_folder(store.path.resolve().parent)
    records = chain(attach_labels(last, info, gold), read_missing(store))
    write_report(folder / REPORT, summary, records, plan, describe_run(info, summary), attribution.links)
    return summary


def write_summary(folder: Path, summary: Summary) -> None:
    """Write `summary.json` alone, as when the MLflow link has become known.

    Raises:
        OSError: the folder cannot be written; a file already there stays as it was.
    """
    write_lines(folder / SUMMARY, [json.dumps(summary.to_dict(), indent=2)])


def _build_answer(record: Record) -> dict[str, str]:
    unjudged = record.error_component == "scorer"  # the answer is valid; only its score is missing
    answered = (record.error is None or unjudged) and record.answer is not None
    return {
        "task_id": record.sample_id,
        "model_answer": str(record.answer) if answered else "",
        "reasoning_trace": record.reasoning_trace,
        "thread_id": record.thread_id,
    }
