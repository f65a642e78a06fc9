"""Two runs' answers to the same questions, side by side, or a sentence why they cannot be.

first, second = answers_of(store), answers_of(other)
obstacle(first, second)                         # None, or "their scorers differ"
pairs(first, second)                            # one eval.analysis.statistics.paired_tests.Pair for each question
with a gold answer
common = in_common(first, second)               # where there is an obstacle: the questions that both answered
pairs(first, second, common.ids)
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval.analysis.comparison.given_answer import Given, GivenAnswer, collect_answers
from eval.analysis.statistics.paired_tests import Pair
from eval.runs.record import PlannedQuestion, Record
from eval.runs.run_info import digest_questions, digest_task
from eval.runs.store import RunStore

ONE_ONLY, OTHER_CONTENT = "with a gold answer in one run alone", "with another text, gold answer or file"
UNANSWERED = "not answered yet by one of the runs"
_REASONS = (ONE_ONLY, OTHER_CONTENT, UNANSWERED)


@dataclass(frozen=True)
class Answers:
    """What counts of a run when it is compared."""

    questions: Mapping[str, PlannedQuestion]  # those with a gold answer, by id
    given: Given
    epochs: int
    scorer: Any = None  # its configuration
    files: Mapping[str, str] = field(default_factory=dict)  # question → SHA-256 of its file, as far as that was kept
    questions_sha256: str | None = None  # in any order; None: a file's digest was not kept
    dataset_sha256: str = ""  # in the order asked, and with the files; older runs have this alone
    n_missing: int = 0  # answers that the run has not come to

    @property
    def question_ids(self) -> frozenset[str]:
        return frozenset(self.questions)

    @property
    def task_version(self) -> str | None:
        return digest_task(self.questions_sha256, self.scorer) if self.questions_sha256 else None

    def of_question(self, sample_id: str, counted: bool = True) -> list[GivenAnswer | None]:
        """By epoch. `counted`: those that are missing are None, and count as wrong; else they are left out."""
        given = self.given.get(sample_id, {})
        found = [given.get(epoch) for epoch in range(1, self.epochs + 1)]
        return found if counted else [each for each in found if each is not None]

    def n_leaked(self, ids: Iterable[str]) -> int:
        """How many of these questions met a web result that gives them away."""
        return sum(any(each and each.leaked for each in self.of_question(sample_id)) for sample_id in ids)

    def scores(self, sample_id: str, counted: bool = True) -> tuple[float, ...]:
        """1 right, 0 wrong or in error, by epoch."""
        return tuple(float(each is not None and each.correct) for each in self.of_question(sample_id, counted))


@dataclass(frozen=True)
class CommonSamples:
    """The questions of two runs that can be compared, and how many cannot be, by reason."""

    ids: Sequence[str]
    left_out: Mapping[str, int]  # reason → questions
    n_files_by_name: int = 0  # of the ids: those whose file's content an older run has not kept the digest of


def read_answers(store: RunStore) -> Answers:
    """
    Raises:
        StoreError: the store cannot be read.
    """
    info, planned = store.read_info(), store.planned()
    files = info.task.file_sha256
    return Answers(
        questions={each.id: each for each in planned if each.target is not None},
        given=collect_answers(store.records(without_trajectory=True)),
        epochs=info.epochs,
        scorer=info.config.get("scorer"),
        files=files,
        questions_sha256=digest_questions(planned, files),
        dataset_sha256=info.task.dataset_sha256,
        n_missing=sum(len(store.missing(epoch)) for epoch in range(1, info.epochs + 1)),
    )


def build_answers(records: Iterable[Record]) -> Answers:
    """Of records with gold answers, all of a finished run."""
    kept = list(records)
    questions = {
        each.sample_id: PlannedQuestion(each.sample_id, each.question, each.file, each.target, each.level)
        for each in kept
        if each.target is not None
    }
    return Answers(questions, collect_answers(kept), max((each.epoch for each in kept), default=1))


def find_obstacle(first: Answers, second: Answers) -> str | None:
    """Why the two cannot be compared as wholes; None: they can."""
    if first.question_ids != second.question_ids:
        both, either = first.question_ids & second.question_ids, first.question_ids | second.question_ids
        return f"their questions differ: {len(both)} of {len(either)} are in both"
    if not have_same_scorer(first, second):
        return "their scorers differ"
    if reason := _other_content(first, second):
        return reason
    if missing := first.n_missing + second.n_missing:
        return f"{missing} answers are still missing"
    return None if first.questions else "no question has a gold answer"


def have_same_scorer(first: Answers, second: Answers) -> bool:
    written = [json.dumps(each.scorer, sort_keys=True, default=str) for each in (first, second)]
    return written[0] == written[1]


def _other_content(first: Answers, second: Answers) -> str | None:
    known = first.questions_sha256 is not None and second.questions_sha256 is not None
    if first.dataset_sha256 and first.dataset_sha256 == second.dataset_sha256:
        return None
    if known:
        same = first.questions_sha256 == second.questions_sha256
        return None if same else "their questions, gold answers or attached files differ"
    return "an older run did not keep what its attached files were, so that they cannot be shown to be the same"


def pair_scores(first: Answers, second: Answers, ids: Sequence[str] | None = None) -> list[Pair]:
    """Of two runs without an obstacle, or of the questions that they have in common."""
    whole = ids is None
    chosen = list(first.questions) if ids is None else ids
    return [Pair(first.scores(each, whole), second.scores(each, whole)) for each in chosen]


def find_common(first: Answers, second: Answers) -> CommonSamples:
    """The questions with the same text, gold answer and file, of which both have an answer."""
    ids, left_out, by_name = [], dict.fromkeys(_REASONS, 0), 0
    for sample_id in {**first.questions, **second.questions}:
        reason = _why_left_out(sample_id, first, second)
        if reason:
            left_out[reason] += 1
            continue
        ids.append(sample_id)
        has_file = first.questions[sample_id].file is not None
        by_name += has_file and not (sample_id in first.files and sample_id in second.files)
    return CommonSamples(ids, {reason: count for reason, count in left_out.items() if count}, by_name)


def _why_left_out(sample_id: str, first: Answers, second: Answers) -> str | None:
    one, other = first.questions.get(sample_id), second.questions.get(sample_id)
    if one is None or other is None:
        return ONE_ONLY
    if (one.question, one.target) != (other.question, other.target) or not _same_file(one, other, first, second):
        return OTHER_CONTENT
    answered = first.of_question(sample_id, counted=False) and second.of_question(sample_id, counted=False)
    return None if answered else UNANSWERED


def _same_file(one: PlannedQuestion, other: PlannedQuestion, first: Answers, second: Answers) -> bool:
    """By content; by name where an older run has kept no more."""
    if one.file is None or other.file is None:
        return one.file == other.file
    digests = first.files.get(one.id), second.files.get(other.id)
    return one.file == other.file if None in digests else digests[0] == digests[1]
