"""Labels of people, found for the records of a run and applied to their scores.

    index = LabelIndex(read_labels(OUTPUTS / "gold"))
    found = index.find(record, file_sha256=None)
    found.corrected_target                                    # "418"
    overrule_score(record, found)                             # an answer that a person accepted scores 1.0

Of several labels on a question the last one holds, and so of several on an answer. An answer is the one that a person
saw if it is the same without differences of case, spacing and the spelling of a number.
"""

from dataclasses import dataclass, replace

from eval.analysis.human_review.labels import (
    OF_QUESTIONS,
    RIGHT,
    WITHDRAWN,
    WRONG_GOLD,
    HumanLabel,
    LabelBook,
    compute_answer_digest,
    compute_text_digest,
)
from eval.benchmarks.fingerprint import compute_fingerprint
from eval.runs.record import HumanVerdict, PlannedQuestion, Record

_ACCEPTED = "a person accepted this answer as right"
_REJECTED = "a person found this answer wrong"


@dataclass(frozen=True)
class FoundLabels:
    """Labels that hold for one record."""

    on_question: HumanLabel | None = None
    on_answer: HumanLabel | None = None

    @property
    def corrected_target(self) -> str | None:
        """The corrected target; None: the old one holds."""
        return self.on_question.target if self.on_question and self.on_question.label == WRONG_GOLD else None

    @property
    def overrules(self) -> HumanLabel | None:
        """The label that decides the answer whatever the scorer says: none if the target was corrected later."""
        corrected_at = self.on_question.when if self.on_question and self.corrected_target else ""
        return None if self.on_answer and self.on_answer.when < corrected_at else self.on_answer

    def __bool__(self) -> bool:
        return self.on_question is not None or self.on_answer is not None


class LabelIndex:
    """Labels by question and answer."""

    def __init__(self, book: LabelBook | None = None, keeps_withdrawn: bool = False) -> None:
        """`keeps_withdrawn`: where a label was taken back and none has followed, a label that says so is found."""
        book = book or LabelBook()
        self._labels: dict[tuple[str, ...], HumanLabel] = {}  # by question, and by question and answer
        for each in book.withdrawn if keeps_withdrawn else []:
            self._labels[_get_key(each)] = replace(each, label=WITHDRAWN)
        for each in book.labels:
            self._labels[_get_key(each)] = each
        self._ids = {key[0] for key in self._labels}

    def __bool__(self) -> bool:
        return bool(self._ids)

    def find(self, record: Record | PlannedQuestion, file_sha256: str | None) -> FoundLabels:
        """Return the labels on a record, or on a planned question.

        Args:
            record: with the target of the run's data.
            file_sha256: of its attachment; None: there is none.
        """
        sample_id = record.sample_id if isinstance(record, Record) else record.id
        if sample_id not in self._ids or record.target is None:  # the digests below cost some microseconds
            return FoundLabels()
        key = (sample_id, compute_fingerprint(record.question, file_sha256), compute_text_digest(record.target))
        if not isinstance(record, Record):
            return FoundLabels(self._labels.get(key))
        answer = self._labels.get((*key, compute_answer_digest(record.answer))) if record.error is None else None
        return FoundLabels(self._labels.get(key), answer)


def _get_key(label: HumanLabel) -> tuple[str, ...]:
    return label.key if label.label in OF_QUESTIONS else (*label.key, label.answer_sha256)


def overrule_score(record: Record, found: FoundLabels) -> None:
    """Give an answer the score that a person's label says. The explanation has no target, nor the person's note."""
    label = found.overrules
    if label is not None and record.error is None:
        record.score = float(label.label == RIGHT)
        record.explanation = _ACCEPTED if label.label == RIGHT else _REJECTED


def list_verdicts(record: Record, found: FoundLabels, *, is_applied: bool) -> list[HumanVerdict]:
    """Return what a record keeps of the labels on it.

    Args:
        record: as it was scored before them.
        found: the labels.
        is_applied: the record's score and target are those that the labels ask for.
    """
    return [
        HumanVerdict(
            **{name: getattr(each, name) for name in ("id", "label", "who", "when", "run", "note", "target")},
            target_before=record.target,
            score_before=record.score,
            is_of_question=each is found.on_question,
            is_applied=is_applied,
        )
        for each in (found.on_question, found.on_answer)
        if each is not None
    ]
