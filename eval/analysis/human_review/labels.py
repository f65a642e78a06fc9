"""Labels of people on questions and answers: `outputs/gold/<dataset digest>.jsonl`, a line for each, only appended to.

They are found for the records of a run, and applied to their scores.

    label = describe_label(record, "wrong_gold", target="418", note="the table says so", who="ada", run="night")
    append_label(OUTPUTS / "gold", info.task.dataset_sha256, label)
    found = read_labels(OUTPUTS / "gold").find(record, file_sha256=None)
    found.corrected_target                                  # "418"
    overrule_score(record, found)                           # an answer that a person accepted scores 1.0

A label names its question by id, text, attachment and target, so it holds in every run of the same data, also of a part
of it, and no longer once the data itself has been corrected. Of several labels on a question the last one holds, and so
of several on an answer. An answer is the one that a person saw if it is the same without differences of case, spacing
and the spelling of a number.
"""

import fcntl
import hashlib
import json
import os
import re
import uuid
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from eval.benchmarks.fingerprint import compute_fingerprint
from eval.cli.paths import OUTPUTS
from eval.runs.record import HumanVerdict, PlannedQuestion, Record
from eval.scorers.score import normalise_answer
from mas.runtime.errors import UserError

GOLD = "gold"  # folder of the labels, under outputs/
RIGHT, WRONG = "right", "wrong"  # the answer is, whatever the scorer says
WRONG_GOLD, AMBIGUOUS, BAD_QUESTION = "wrong_gold", "ambiguous", "bad_question"  # of the question
WITHDRAWN = "withdrawn"  # takes back an earlier label
OF_QUESTIONS = (WRONG_GOLD, AMBIGUOUS, BAD_QUESTION)
LABELS = (RIGHT, WRONG, *OF_QUESTIONS)
VERSION = 1
_MAX_SHOWN_CHARS = 2_000  # of the answer, which is only shown: its digest is compared
_EXPLANATIONS = {RIGHT: "a person accepted this answer as right", WRONG: "a person found this answer wrong"}
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class HumanLabel:
    """One line of a file."""

    sample_id: str
    question: str  # fingerprint of its text and attachment
    target_sha256: str  # of the target that the person saw
    label: str
    target: str | None = None  # the corrected one, of `wrong_gold`
    answer: str = ""  # that the person saw, cut
    answer_sha256: str = ""  # of all of it, without differences of case and spacing
    note: str = ""
    who: str = ""
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    run: str = ""  # name of the run in which the person saw the answer
    epoch: int = 1
    attempt: int = 1
    withdraws: str = ""  # id of the label that this one takes back
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    version: int = VERSION

    @property
    def key(self) -> tuple[str, ...]:
        """The question or the answer that it is on, as every run of the same data has it."""
        question = (self.sample_id, self.question, self.target_sha256)
        return question if self.label in OF_QUESTIONS else (*question, self.answer_sha256)


@dataclass(frozen=True)
class FoundLabels:
    """Labels that hold for one record."""

    on_question: HumanLabel | None = None
    on_answer: HumanLabel | None = None

    @property
    def all(self) -> list[HumanLabel]:
        return [each for each in (self.on_question, self.on_answer) if each is not None]

    @property
    def corrected_target(self) -> str | None:
        """The corrected target; None: the old one holds."""
        return self.on_question.target if self.on_question and self.on_question.label == WRONG_GOLD else None

    @property
    def overrules(self) -> HumanLabel | None:
        """The label that decides the answer whatever the scorer says: none if the target was corrected later."""
        corrected_at = self.on_question.when if self.on_question and self.corrected_target else ""
        return None if self.on_answer and self.on_answer.when < corrected_at else self.on_answer


@dataclass(frozen=True)
class LabelBook:
    """Everything that people have said, the oldest first."""

    labels: list[HumanLabel] = field(default_factory=list)  # that hold
    unreadable: list[str] = field(default_factory=list)  # file and line of what is no label

    @cached_property
    def _by_key(self) -> dict[tuple[str, ...], HumanLabel]:
        return {each.key: each for each in self.labels}

    def find(self, record: Record | PlannedQuestion, file_sha256: str | None) -> FoundLabels:
        """Return the labels on a record with the target of the run's data, or on a planned question."""
        if record.target is None or not self.labels:
            return FoundLabels()
        sample_id = record.sample_id if isinstance(record, Record) else record.id
        key = (sample_id, compute_fingerprint(record.question, file_sha256), _digest(record.target))
        found = [self._by_key.get(key)]
        if isinstance(record, Record) and record.error is None:
            found.append(self._by_key.get((*key, _digest_answer(record.answer))))
        return FoundLabels(*found)


def describe_label(
    record: Record,
    label: str,
    *,
    file_sha256: str | None,
    who: str,
    run: str,
    target: str | None = None,
    note: str = "",
) -> HumanLabel:
    """Return a new label on the record that a person saw, or on its question; raise UserError if a part is missing.

    `file_sha256`: of the question's attachment, if there is one; `target`: the corrected one, only with `wrong_gold`.
    """
    is_gold, corrected = label == WRONG_GOLD, (target or "").strip()
    is_old = is_gold and target == record.target
    mistakes = {
        f"{label} is no label; choose one of {', '.join(LABELS)}.": label not in LABELS,
        "the question has no target, so nothing can be said of its score.": record.target is None,
        "the corrected target is missing; enter it, or choose another label.": is_gold and not corrected,
        "the corrected target is the old one; enter another, or choose another label.": is_old,
        "there is no answer that could be right; choose another label.": label == RIGHT and record.answer is None,
    }
    if mistake := next((sentence for sentence, applies in mistakes.items() if applies), None):
        raise UserError(mistake)
    return HumanLabel(
        sample_id=record.sample_id,
        question=compute_fingerprint(record.question, file_sha256),
        target_sha256=_digest(record.target or ""),
        label=label,
        target=corrected if is_gold else None,
        answer=(record.answer or "")[:_MAX_SHOWN_CHARS],
        answer_sha256=_digest_answer(record.answer),
        note=note.strip(),
        who=who,
        run=run,
        epoch=record.epoch,
        attempt=record.attempt,
    )


def withdraw(label: HumanLabel, who: str) -> HumanLabel:
    """Return the line that takes a label back."""
    question = {name: getattr(label, name) for name in ("sample_id", "question", "target_sha256", "run")}
    return HumanLabel(label=WITHDRAWN, withdraws=label.id, who=who, **question)


def find_gold_folder(run_folder: Path) -> Path:
    """Return the folder of labels for a run: next to the `eval/` that the run is in; of other runs outputs/gold."""
    return run_folder.parent.with_name(GOLD) if run_folder.parent.name == "eval" else OUTPUTS / GOLD


def is_dataset_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def append_label(folder: Path, dataset_sha256: str, label: HumanLabel) -> Path:
    """Append a label to the file of its dataset, and return the file; the line is on the disk when this returns.

    A line that a crash or a full disk has cut off is ended first. UserError: the digest is none, or the file cannot be
    written.
    """
    if not is_dataset_digest(dataset_sha256):
        raise UserError("the run does not say which data it was made with, so labels on it could not be used.")
    path = folder / f"{dataset_sha256}.jsonl"
    line = json.dumps(asdict(label)).encode("ascii") + b"\n"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            if end and os.pread(descriptor, 1, end - 1) != b"\n":
                line = b"\n" + line
            if file.write(line) != len(line):
                raise OSError("the disk is full")
            os.fsync(descriptor)
    except OSError as error:
        raise UserError(f"the label was not saved: {path} cannot be written ({error}).") from error
    return path


def read_labels(place: Path) -> LabelBook:
    """Return the labels in a folder, or in one file of it, if it exists; raise UserError if one cannot be read."""
    found, unreadable = list[HumanLabel](), list[str]()
    for file in sorted(place.glob("*.jsonl")) if place.is_dir() else [place]:
        try:
            lines = file.read_text("utf-8", "replace").splitlines() if file.exists() else []
        except OSError as error:
            raise UserError(f"{file} cannot be read ({error}).") from error
        for number, line in enumerate(filter(str.strip, lines), start=1):
            if (label := _read_label(line)) is None:
                unreadable.append(f"{file.name}:{number}")
            else:
                found.append(label)
    found.sort(key=lambda each: each.when)
    gone = {each.withdraws for each in found if each.label == WITHDRAWN}
    return LabelBook([each for each in found if each.label != WITHDRAWN and each.id not in gone], unreadable)


def _read_label(line: str) -> HumanLabel | None:
    """Return the label in a line; None if it is none of this version."""
    try:
        label = HumanLabel(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    texts = {**vars(label), "target": label.target or ""}
    numbers = [texts.pop(name) for name in ("epoch", "attempt", "version")]
    fits = all(isinstance(each, int) for each in numbers) and all(isinstance(each, str) for each in texts.values())
    return label if fits and label.version == VERSION and label.label in (*LABELS, WITHDRAWN) else None


def overrule_score(record: Record, found: FoundLabels) -> None:
    """Give an answer the score that a person's label says. The explanation has no target, nor the person's note."""
    if found.overrules is not None and record.error is None:
        record.score = float(found.overrules.label == RIGHT)
        record.explanation = _EXPLANATIONS[found.overrules.label]


def list_verdicts(record: Record, found: FoundLabels) -> list[HumanVerdict]:
    """Return what a record, as it was scored before them, keeps of the labels on it."""
    same = ("id", "label", "who", "when", "run", "note", "target")
    return [
        HumanVerdict(
            **{name: getattr(each, name) for name in same},
            target_before=record.target,
            score_before=record.score,
            is_of_question=each is found.on_question,
        )
        for each in found.all
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digest_answer(answer: str | None) -> str:
    """Return one digest for answers that differ in case, spacing or the spelling of one number."""
    return "" if answer is None else _digest(normalise_answer(answer))
