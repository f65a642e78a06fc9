"""Queue of answers that a person reviews, and what is shown of one of them."""

import json
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from eval.analysis.attribution.broken_link import find_broken_link
from eval.analysis.human_review.labels import (
    LabelBook,
    append_label,
    describe_label,
    is_dataset_digest,
    read_labels,
    withdraw,
)
from eval.reports.step_tree import Json, build_steps, cut_text, mark_answer
from eval.runs.find import check_entries
from eval.runs.folder import DATABASE, TUNING_FILE
from eval.runs.own_runs import refuse_unreadable
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from eval.scorers.labels import LabelSet
from mas.runtime.errors import UserError
from mas.runtime.terminal import shorten_line

_MAX_LINE_CHARS = 200
_ORDER = {"wrong": 0, "partial": 0, "error": 1, "right": 2}


class ReviewQueue:
    """Answers of one evaluation. Any thread may call it. The store stays open: to check a large one takes a while."""

    def __init__(self, folder: Path, gold: Path) -> None:
        """`gold`: folder of the labels."""
        self.folder, self.gold = folder, gold

    @cached_property
    def store(self) -> RunStore:
        check_entries(self.folder)
        return RunStore(self.folder / DATABASE, read_only=True)

    def explain_refusal(self) -> str:
        """Return why answers of the run cannot be reviewed; empty if they can."""
        info = self._read_info()
        if why := info.describe_gold():
            return f"No measurement: {why}; review the answers of the run that it was made of."
        if info.rescored_from:
            return f"It was scored again from {info.rescored_from}; review the answers of that run."
        if not is_dataset_digest(info.task.dataset_sha256):
            return "It does not say which data it was made with, so labels on it could not be used."
        return ""

    def list_items(self) -> list[Json]:
        """Return the last attempt at each question and epoch that has a target, wrong answers first."""
        info, book = self._read_info(), read_labels(self.gold)
        last: dict[tuple[str, int], tuple[int, Record]] = {}
        with refuse_unreadable(self.folder):
            for row, record in self.store.records_after(0):
                before = last.get((record.sample_id, record.epoch))
                if record.scored and (before is None or before[1].attempt < record.attempt):
                    last[record.sample_id, record.epoch] = row, record
            items: list[Json] = [
                {
                    "row": row,
                    "id": record.sample_id,
                    "epoch": record.epoch,
                    "mark": mark_answer(record),
                    "question": shorten_line(record.question, _MAX_LINE_CHARS),
                    "labels": _list_labels(record, info, book),
                }
                for row, record in last.values()
            ]
        return sorted(items, key=lambda each: _ORDER[str(each["mark"])])

    def read_answer(self, row: int) -> Json:
        """Return everything that a person needs to judge an answer; raise UserError if there is no such row."""
        info = self._read_info()
        with refuse_unreadable(self.folder):
            record = self._read_record(row)
            link = find_broken_link(record, labels=LabelSet(tuple(info.task.labels)))
            same = ("epoch", "level", "question", "file", "target", "answer", "explanation", "error")
            return {name: getattr(record, name) for name in same} | {
                "row": row,
                "id": record.sample_id,
                "mark": mark_answer(record),
                "lost": f"{link.kind} {link.name}: {link.evidence}" if link else "",
                "reasoning": cut_text(record.reasoning_trace),
                "steps": build_steps(record.trajectory),
                "labels": _list_labels(record, info, read_labels(self.gold)),
            }

    def save(self, row: int, label: str, who: str, target: str | None = None, note: str = "") -> Json:
        """Save a label, and return it; it is on the disk when this returns. `target`: the corrected one.

        UserError: it is not complete, the run cannot be reviewed, or the file cannot be written.
        """
        if reason := self.explain_refusal():
            raise UserError(reason)
        info, record, run = self._read_info(), self._read_record(row), self.folder.name
        file = info.task.file_sha256.get(record.sample_id)
        saved = describe_label(record, label, file_sha256=file, who=who, run=run, target=target, note=note)
        append_label(self.gold, info.task.dataset_sha256, saved)
        return asdict(saved)

    def withdraw(self, label_id: str, who: str) -> None:
        """Take a label back; raise UserError if there is none, or the file cannot be written."""
        label = next((each for each in read_labels(self.gold).labels if each.id == label_id), None)
        if label is None:
            raise UserError("there is no such label any more; reload the page.")
        append_label(self.gold, self._read_info().task.dataset_sha256, withdraw(label, who))

    def _read_info(self) -> RunInfo:
        """Raise UserError for a tuning run, whose sealed answers nobody reads early."""
        with refuse_unreadable(self.folder):
            info = self.store.read_info()
        if info.tuning or (self.folder / TUNING_FILE).is_file():
            after = "after its verdict, eval/rescore.py RUN:ID scorer=… makes an evaluation run of its sealed answers"
            raise UserError(f"It is a tuning run, whose answers are not reviewed; {after} with the prompts ID.")
        return info

    def _read_record(self, row: int) -> Record:
        number, line = next(self.store.lines_after(row - 1), (0, ""))
        if number != row:
            raise UserError("there is no such answer; reload the page.")
        return Record.from_dict(json.loads(line))


def _list_labels(record: Record, info: RunInfo, book: LabelBook) -> list[Json]:
    return list(map(asdict, book.find(record, info.task.file_sha256.get(record.sample_id)).all))
