"""What a summary or a comparison keeps of each record, so that 10,000 answers fit in memory, and means over records.

kept = [shorten_record(record) for record in store.records(without_trajectory=True)]
measure(kept, incomplete=False).ci95        # of the metric
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from eval.analysis.statistics.intervals import Estimate, compute_metric_interval
from eval.runs.record import Record, Usage

MAX_ERROR_CHARS, MAX_ANSWER_CHARS = 300, 200
REMARKS = {"format_loss", "safety"}  # parts that are no shares of the score
Key = tuple[str, int]  # sample id and epoch
_LEFT_OUT: dict[str, Any] = {  # of each record; all share these values, which nothing changes
    **dict.fromkeys(("question", "reasoning_trace", "explanation"), ""),
    **{name: {} for name in ("seconds_by_agent", "calls_by_tool", "tool_errors", "first_tool_errors")},
    **{"scorer_usage": Usage(), "error_details": None, "state": {}, "trajectory": []},
}


def shorten_record(record: Record) -> Record:
    """Return what the numbers of many answers need of one; if it failed, it has an error class and no answer."""
    failed = record.error is not None
    return replace(
        record,
        **_LEFT_OUT,
        answer=None if failed or record.answer is None else str(record.answer)[:MAX_ANSWER_CHARS],
        error=record.error and record.error[:MAX_ERROR_CHARS],
        error_class=(record.error_class or "unknown") if failed else None,
        extra_scores={name: replace(each, explanation="") for name, each in record.extra_scores.items()},
    )


def get_key(record: Record) -> Key:
    return record.sample_id, record.epoch


def group_by_sample(answers: Iterable[Record]) -> list[list[Record]]:
    samples: defaultdict[str, list[Record]] = defaultdict(list)
    for each in answers:
        samples[each.sample_id].append(each)
    return list(samples.values())


def measure(
    answers: Iterable[Record], incomplete: bool, read: Callable[[Record], float] = lambda answer: answer.value
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


def measure_without(final: Sequence[Record], left_out: Collection[str], incomplete: bool) -> Estimate:
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
