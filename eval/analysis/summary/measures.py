"""What a summary or a comparison keeps of each record, so that 10,000 answers fit in memory, and means over records.

kept = [Answer.of(record) for record in store.records(without_trajectory=True)]
measure(kept, incomplete=False).ci95        # of the metric
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace

from eval.analysis.statistics.intervals import Estimate, compute_metric_interval
from eval.runs.record import ExtraScore, HumanVerdict, Record, Usage
from eval.scorers.score import read_value

MAX_ERROR_CHARS, MAX_ANSWER_CHARS = 300, 200
REMARKS = {"format_loss", "safety"}  # parts that are no shares of the score
Key = tuple[str, int]  # sample id and epoch


@dataclass(slots=True)
class Answer:
    """What numbers need of one attempt at a (sample, epoch), with the names of a record's fields."""

    sample_id: str
    epoch: int
    attempt: int
    level: str | None
    target: str | None
    score: float | None
    parts: dict[str, float]
    limit: str | None
    usage: Usage
    wall_seconds: float
    waited_seconds: float
    leaks: list[dict[str, str]]
    human: list[HumanVerdict]
    answer: str | None  # its beginning; None: in error, or no answer
    error: str | None  # its beginning
    error_class: str | None  # None: no error
    extra_scores: dict[str, ExtraScore]  # without explanations

    @classmethod
    def of(cls, record: Record) -> "Answer":
        failed = record.error is not None
        return cls(
            **{name: getattr(record, name) for name in _COPIED},
            answer=None if failed or record.answer is None else str(record.answer)[:MAX_ANSWER_CHARS],
            error=record.error and record.error[:MAX_ERROR_CHARS],
            error_class=(record.error_class or "unknown") if failed else None,
            extra_scores={name: replace(each, explanation="") for name, each in record.extra_scores.items()},
        )

    @property
    def key(self) -> Key:
        return self.sample_id, self.epoch

    @property
    def value(self) -> float:
        return read_value(self.score)

    @property
    def correct(self) -> bool:
        return self.value == 1.0

    @property
    def scored(self) -> bool:
        return self.target is not None


_COPIED = [each.name for each in fields(Answer)][:-4]  # as the record has them: all but those that `of` shortens


def group_by_sample(answers: Iterable[Answer]) -> list[list[Answer]]:
    samples: defaultdict[str, list[Answer]] = defaultdict(list)
    for each in answers:
        samples[each.sample_id].append(each)
    return list(samples.values())


def measure(
    answers: Iterable[Answer], incomplete: bool, read: Callable[[Answer], float] = lambda answer: answer.value
) -> Estimate:
    """Return the mean value, 0 to 1, of answers to samples with a target, and its interval, clustered by sample.

    `incomplete`: answers are missing, so that there is no interval.
    """
    return measure_values([[read(each) for each in sample] for sample in group_by_sample(answers)], incomplete)


def measure_values(values: Sequence[Sequence[float]], incomplete: bool) -> Estimate:
    """Return the same of the values of each sample's answers."""
    n = sum(map(len, values))
    ci95 = None if incomplete else compute_metric_interval(values)
    return Estimate(sum(map(sum, values)) / n if n else None, ci95, n)


def measure_without(final: Sequence[Answer], left_out: Collection[str], incomplete: bool) -> Estimate:
    """Return the metric without the samples of these ids; of no value if there are none."""
    others = [each for each in final if each.scored and each.sample_id not in left_out]
    return measure(others, incomplete) if left_out else Estimate(None, None, len(others))


_COUNTS = tuple(each.name for each in fields(Usage) if each.type is int)


def add_usage(total: Usage, usage: Usage) -> Usage:
    """Return the sum; its cost is None as soon as one is unknown, for a partial sum would look like the whole."""
    known = total.at_least_usd + usage.at_least_usd
    costs = [each.cost_usd for each in (total, usage) if each.lm_calls or each.cost_usd is not None]  # else no call
    return Usage(
        **{name: getattr(total, name) + getattr(usage, name) for name in _COUNTS},
        known_cost_usd=known,
        cost_usd=known if costs and None not in costs else None,
    )
