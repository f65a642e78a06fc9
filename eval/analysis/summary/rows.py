"""The little of each record that a summary keeps, so that 10,000 samples fit in a few megabytes, and means over it.

build_row(record).vote == build_row(other).vote      # both answered the same
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from sys import intern

from eval.analysis.statistics.intervals import Tally, compute_clustered_interval, compute_metric_interval
from eval.analysis.summary.summary import NO_ANSWER, OTHER, Estimate
from eval.runs.record import HumanVerdict, Record, Usage
from eval.scorers.labels import LabelSet
from eval.scorers.score import normalise_answer

MAX_ERROR_CHARS = 300
NO_LABELS = LabelSet()
Key = tuple[str, int]  # sample id and epoch


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt at a (sample, epoch)."""

    sample_id: str
    epoch: int
    attempt: int
    level: str | None
    scored: bool
    correct: bool
    value: float  # 0 to 1; in error or unscored 0
    parts: tuple[tuple[str, float], ...]  # of the score, by name; without remarks that have a count of their own
    extra: tuple[tuple[str, float | None, str | None], ...]  # name, value and error of each extra scorer
    error_class: str | None  # None: no error
    error: str | None  # its message, cut
    limit: str | None
    format_loss: bool
    leaks: tuple[tuple[str, str], ...]  # tool and source of each web result that gives the sample away
    blocked_pages: tuple[tuple[str, int], ...]  # host and number
    label: str | None  # that the target is; None: it is none
    given_label: str  # that the answer is; else NO_ANSWER or OTHER
    human: tuple[HumanVerdict, ...]  # labels of people
    vote: int | None  # equal for equal answers within this process; None: in error, or without an answer

    @property
    def key(self) -> Key:
        return self.sample_id, self.epoch


_REMARKS = ("format_loss", "safety")  # parts that are no shares of the score


def build_row(record: Record, labels: LabelSet = NO_LABELS) -> Row:
    """Return the row of a record."""
    failed = record.error is not None
    return Row(
        sample_id=record.sample_id,
        epoch=record.epoch,
        attempt=record.attempt,
        level=None if record.level is None else intern(record.level),
        scored=record.scored,
        correct=record.scored and record.correct,
        value=record.value if record.scored else 0.0,
        parts=tuple((intern(name), value) for name, value in record.parts.items() if name not in _REMARKS),
        extra=tuple(
            (intern(name), each.value, each.error and each.error[:MAX_ERROR_CHARS])
            for name, each in record.extra_scores.items()
        ),
        error_class=intern(record.error_class or "unknown") if failed else None,
        error=None if record.error is None else intern(record.error[:MAX_ERROR_CHARS]),
        limit=None if record.limit is None else intern(record.limit),
        format_loss=record.parts.get("format_loss", 0.0) > 0,
        leaks=tuple((each["tool"], each["source"]) for each in record.leaks),
        blocked_pages=tuple((intern(host), times) for host, times in record.blocked_pages.items()),
        label=labels.find(record.target),
        given_label=find_given_label(None if failed else record.answer, record.target, record.correct, labels),
        human=tuple(record.human),
        vote=None if failed else _hash_answer(record.answer),
    )


def find_given_label(answer: str | None, target: str | None, correct: bool, labels: LabelSet) -> str:
    """Return the label that an answer is, or that the scorer took it for; else NO_ANSWER or OTHER."""
    text = "" if answer is None else str(answer)
    if not text.strip():
        return NO_ANSWER
    return labels.find(text) or (labels.find(target) if correct else None) or OTHER


def _hash_answer(answer: str | None) -> int | None:
    """Return a hash, because the answer itself may have megabytes."""
    text = normalise_answer("" if answer is None else str(answer))
    return hash(text) if text else None


def group_by_sample(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows of each sample."""
    samples: defaultdict[str, list[Row]] = defaultdict(list)
    for each in rows:
        samples[each.sample_id].append(each)
    return list(samples.values())


def measure(rows: Iterable[Row], incomplete: bool, read: Callable[[Row], float] = lambda row: row.value) -> Estimate:
    """Return the mean over answers and its interval, clustered by sample.

    Args:
        rows: of answers with a target.
        incomplete: True if answers are missing: there is no interval then.
        read: returns the value of an answer, 0 to 1.
    """
    values = [[read(each) for each in answers] for answers in group_by_sample(rows)]
    n = sum(map(len, values))
    ci95 = None if incomplete else compute_metric_interval(values)
    return Estimate(sum(map(sum, values)) / n if n else None, ci95, n)


def measure_share(tallies: Iterable[Tally], incomplete: bool) -> Estimate:
    """Return the share of hits over each sample's (hits, all), and its interval, clustered by sample."""
    counted = [each for each in tallies if each[1]]
    n = sum(size for _, size in counted)
    share = sum(hits for hits, _ in counted) / n if n else None
    return Estimate(share, None if incomplete else compute_clustered_interval(counted), n)


def measure_without(final: Sequence[Row], left_out: Collection[str], incomplete: bool) -> Estimate:
    """Return the metric without some of the samples; of no value if none is left out.

    Args:
        final: the last attempt at each (sample, epoch).
        left_out: ids of the samples; empty: nothing is left out.
        incomplete: True if answers are missing: there are no intervals then.
    """
    others = [each for each in final if each.scored and each.sample_id not in left_out]
    return measure(others, incomplete) if left_out else Estimate(None, None, len(others))


_COUNTS = tuple(each.name for each in fields(Usage) if each.type is int)


def _add_usage(total: Usage, usage: Usage) -> Usage:
    """Return the sum; its cost is None as soon as one is unknown, for a partial sum would look like the whole."""
    known = total.known_cost_usd + usage.at_least_usd
    costs = [each.cost_usd for each in (total, usage) if each.lm_calls or each.cost_usd is not None]  # else no call
    return Usage(
        **{name: getattr(total, name) + getattr(usage, name) for name in _COUNTS},
        known_cost_usd=known,
        cost_usd=known if costs and None not in costs else None,
    )


class Spending:
    """Usage of every attempt, since all of them were paid for."""

    def __init__(self) -> None:
        self.usage, self.scorer_usage = Usage(), Usage()
        self.waited_seconds = 0.0
        self.calls_by_tool, self.tool_errors = Counter[str](), Counter[str]()
        self.first_tool_errors: dict[str, str] = {}
        self.seconds_by_agent: defaultdict[str, float] = defaultdict(float)

    def add(self, record: Record) -> None:
        self.usage = _add_usage(self.usage, record.usage)
        self.scorer_usage = _add_usage(self.scorer_usage, record.scorer_usage)
        self.waited_seconds += record.waited_seconds
        self.calls_by_tool.update(record.calls_by_tool)
        self.tool_errors.update(record.tool_errors)
        self.first_tool_errors = {**record.first_tool_errors, **self.first_tool_errors}
        for agent, seconds in record.seconds_by_agent.items():
            self.seconds_by_agent[agent] += seconds
