"""A run's answers as a comparison reads them, and how those of two runs are paired.

first, second = read_answers(store), read_answers(other)      # small: runs of 10,000 samples fit in memory
first.given["q1"][2].correct                    # of the second epoch
find_obstacle(first, second)                    # None, or "their scorers differ"
pair_scores(first, second)                      # one Pair for each sample with a target
pair_scores(first, second, find_common(first, second))      # if there is one: the samples that both answered
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern

from eval.analysis.statistics.paired_tests import Pair
from eval.runs.record import PlannedQuestion, Record
from eval.runs.run_info import digest_questions, digest_task
from eval.runs.store import RunStore
from mas.runtime.text import format_count

MAX_TEXT_CHARS = 600
# Error classes of replies that could not be read: parse errors, empty ones, those cut at the token limit.
UNREADABLE = ("malformed", "truncated")


@dataclass(slots=True)
class GivenAnswer:
    """The answer to one sample in one epoch: verdict of the last attempt, usage of all, since all were paid for."""

    attempt: int
    value: float  # 0 to 1; in error 0
    text: str  # cut; empty: in error, or no answer
    error_class: str | None  # None: no error
    unreadable: bool  # a reply could not be read
    format_lost: bool  # unreadable, or wrong in its format alone
    seconds: float  # of work: without waiting for rate limits, free places and retries
    tokens: int  # in and out
    cost_usd: float | None  # None: unknown
    cached_calls: int  # from the cache that runs share: they cost nothing this time
    leaked: bool = False  # it met a web result that gives the sample away

    @classmethod
    def from_record(cls, record: Record) -> "GivenAnswer":
        failed = record.error is not None
        usage = record.usage
        return cls(
            attempt=record.attempt,
            value=record.value,
            text="" if failed or record.answer is None else str(record.answer)[:MAX_TEXT_CHARS],
            error_class=intern(record.error_class or "unknown") if failed else None,
            unreadable=record.error_class in UNREADABLE,
            format_lost=record.error_class in UNREADABLE or record.parts.get("format_loss", 0.0) > 0,
            seconds=max(record.wall_seconds - record.waited_seconds, 0.0),
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=usage.cost_usd if usage.lm_calls else 0.0,  # no call was made
            cached_calls=usage.cached_calls,
            leaked=bool(record.leaks),
        )

    @property
    def correct(self) -> bool:
        return self.value == 1.0

    def add_usage(self, other: "GivenAnswer") -> None:
        """Add the usage of another attempt."""
        self.seconds += other.seconds
        self.tokens += other.tokens
        self.cached_calls += other.cached_calls
        known = self.cost_usd is not None and other.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None


Given = dict[str, dict[int, GivenAnswer]]  # sample id → epoch, from 1 → answer


@dataclass(frozen=True)
class Answers:
    """The answers of a run, and the task that they belong to."""

    questions: Mapping[str, PlannedQuestion]  # those with a target, by id
    given: Given
    epochs: int
    scorer: object = None  # its configuration
    files: Mapping[str, str] = field(default_factory=dict)  # sample id → SHA-256 of its attachment
    questions_sha256: str = ""  # in any order
    n_missing: int = 0  # answers that the run has not come to

    @property
    def task_version(self) -> str:
        return digest_task(self.questions_sha256, self.scorer)

    def list_epochs(self, sample_id: str) -> list[GivenAnswer | None]:
        """Return the answers to a sample by epoch; missing ones are None."""
        given = self.given.get(sample_id, {})
        return [given.get(epoch) for epoch in range(1, self.epochs + 1)]

    def list_given(self, sample_id: str) -> list[GivenAnswer]:
        """Return the answers to a sample that there are."""
        return [each for each in self.list_epochs(sample_id) if each is not None]

    def list_scores(self, sample_id: str, with_missing: bool = True) -> tuple[float, ...]:
        """Return the value of each epoch's answer, 0 to 1; in error or missing it is 0.

        Args:
            sample_id: the sample.
            with_missing: also of epochs without an answer.
        """
        given = self.list_epochs(sample_id) if with_missing else self.list_given(sample_id)
        return tuple(0.0 if each is None else each.value for each in given)


def read_answers(store: RunStore) -> Answers:
    """Return the answers of a run.

    Raises:
        StoreError: the store cannot be read.
    """
    info, planned = store.read_info(), store.read_plan()
    files = info.task.file_sha256
    return Answers(
        questions={each.id: each for each in planned if each.target is not None},
        given=collect_answers(store.records(without_trajectory=True)),
        epochs=info.epochs,
        scorer=info.config.get("scorer"),
        files=files,
        questions_sha256=digest_questions(planned, files),
        n_missing=sum(len(store.list_missing(epoch)) for epoch in range(1, info.epochs + 1)),
    )


def build_answers(records: Iterable[Record], scorer: object = None) -> Answers:
    """Return the answers of a finished run from its records, and the configuration of its scorer if it is known."""
    kept = list(records)
    questions = {
        each.sample_id: PlannedQuestion(each.sample_id, each.question, each.file, each.target, each.level)
        for each in kept
        if each.target is not None
    }
    return Answers(questions, collect_answers(kept), max((each.epoch for each in kept), default=1), scorer)


def collect_answers(records: Iterable[Record]) -> Given:
    """Return the answers in all attempts, which may come in any order."""
    found: Given = {}
    for record in records:
        epochs = found.setdefault(record.sample_id, {})
        answer, before = GivenAnswer.from_record(record), epochs.get(record.epoch)
        if before is not None:
            answer, earlier = (answer, before) if answer.attempt > before.attempt else (before, answer)
            answer.add_usage(earlier)
        epochs[record.epoch] = answer
    return found


def find_obstacle(first: Answers, second: Answers) -> str | None:
    """Return why the two runs cannot be compared as wholes; None if they can."""
    if first.questions.keys() != second.questions.keys():
        n_both, n_either = (
            len(first.questions.keys() & second.questions),
            len({**first.questions, **second.questions}),
        )
        return f"their questions differ: {n_both} of {n_either} are in both"
    if first.scorer != second.scorer:
        return "their scorers differ"
    if first.questions_sha256 != second.questions_sha256:
        return "their questions, gold answers or attached files differ"
    if missing := first.n_missing + second.n_missing:
        return f"{format_count(missing, 'answer')} {'is' if missing == 1 else 'are'} still missing"
    return None if first.questions else "no question has a gold answer"


def pair_scores(first: Answers, second: Answers, ids: Sequence[str] | None = None) -> list[Pair]:
    """Return the scores of two runs without an obstacle, or of the samples that they have in common.

    Args:
        first: one run.
        second: the other.
        ids: of the samples; None: all.
    """
    whole = ids is None
    chosen = first.questions if ids is None else ids
    return [Pair(first.list_scores(each, whole), second.list_scores(each, whole)) for each in chosen]


def find_common(first: Answers, second: Answers) -> list[str]:
    """Return the samples with the same text, target and attachment that both runs have answered."""
    return [each for each in first.questions if _is_common(each, first, second)]


def _is_common(sample_id: str, first: Answers, second: Answers) -> bool:
    one, other = first.questions[sample_id], second.questions.get(sample_id)
    if other is None or (one.question, one.target) != (other.question, other.target):
        return False
    same_file = first.files.get(sample_id) == second.files.get(sample_id)
    return same_file and bool(first.list_given(sample_id) and second.list_given(sample_id))
