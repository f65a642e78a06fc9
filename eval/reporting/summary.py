"""The numbers of a run, made from its records alone.

    summarise("run-1", store.records(), simulated=False, wall_seconds=63.1)["accuracy"]      # 0.3774

Accuracy divides by every question that has a gold answer, those in error included. Per (question, epoch) the last
attempt counts; usage and agents' seconds add up over all attempts, since all of them were paid for.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from eval.intervals import accuracy_interval
from eval.record import Record, Usage
from eval.reporting.agreement import agreement
from mas.offline import SIMULATED_NOTICE

JUDGED_BESIDE = ("rule", "exact")  # the parts of a graded score that say what the rules would have said


def summarise(
    run_id: str,
    records: Iterable[Record],
    *,
    simulated: bool,
    wall_seconds: float,
    bad_rows: Sequence[str] = (),
    stopped: str | None = None,
) -> dict[str, Any]:
    """The content of `summary.json`; the key `mlflow` is null until the run has been exported."""
    attempts = list(records)
    final = final_attempts(attempts)
    return {
        "run_id": run_id,
        "simulated": simulated,
        "notice": SIMULATED_NOTICE if simulated else None,
        "stopped": stopped,  # why the run ended before all its questions did; they are in the numbers, as wrong
        **_counts(final),
        "n_unscored": sum(not record.scored for record in final),
        "n_questions": len({record.example_id for record in final}),
        "epochs": len({record.epoch for record in final}),
        "n_bad_rows": len(bad_rows),
        "bad_rows": list(bad_rows),
        "by_level": _by_level(final),
        "errors_by_class": _tally(record.error_class or "unknown" for record in final if record.error is not None),
        "limits": _tally(record.limit for record in final if record.limit is not None),
        "format_loss": sum(record.parts.get("format_loss", 0.0) > 0 for record in final),
        "mean_score": _mean_score(final),
        "judge_agreement": _judge_agreement(final),
        "usage": _usage([record.usage for record in attempts]),
        "scorer_usage": _usage([record.scorer_usage for record in attempts]),
        "by_agent": _seconds_by_agent(attempts),
        "wall_seconds": round(wall_seconds, 3),
        "mlflow": None,
    }


def final_attempts(records: Iterable[Record]) -> list[Record]:
    """The last attempt at each (question, epoch), in the order in which these first appear."""
    final: dict[tuple[str, int], Record] = {}
    for record in records:
        key = (record.example_id, record.epoch)
        if key not in final or record.attempt > final[key].attempt:
            final[key] = record
    return list(final.values())


def _counts(records: Sequence[Record]) -> dict[str, Any]:
    n_scored = sum(record.scored for record in records)
    n_correct = sum(record.scored and record.correct for record in records)
    interval = accuracy_interval(n_correct, n_scored)
    return {
        "n": len(records),
        "n_scored": n_scored,
        "n_correct": n_correct,
        "accuracy": n_correct / n_scored if n_scored else None,
        "accuracy_ci95": list(interval) if interval else None,
        "n_error": sum(record.error is not None for record in records),
    }


def _by_level(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    groups: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.level is not None:
            groups[record.level].append(record)
    return {level: _counts(groups[level]) for level in sorted(groups)}


def _tally(names: Iterable[str]) -> dict[str, int]:
    """The most frequent first."""
    return dict(Counter(names).most_common())


def _mean_score(records: Sequence[Record]) -> float | None:
    """With partial credit, over the same questions as the accuracy; null where no answer is partly right."""
    scores = [record.score or 0.0 for record in records if record.scored]
    return sum(scores) / len(scores) if any(0 < score < 1 for score in scores) else None


def _judge_agreement(records: Sequence[Record]) -> dict[str, Any] | None:
    """How far a judge agrees with each rule on the answers that it judged; null without a judge."""
    judged = [record for record in records if record.score is not None and set(JUDGED_BESIDE) <= set(record.parts)]
    if not judged:
        return None
    return {name: agreement([(record.correct, record.parts[name] >= 1) for record in judged]) for name in JUDGED_BESIDE}


def _usage(usages: Sequence[Usage]) -> dict[str, Any]:
    """Totals; the cost is null as soon as one record's is unknown, for a partial sum would look like the whole."""
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return {
        "lm_calls": sum(usage.lm_calls for usage in usages),
        "tool_calls": sum(usage.tool_calls for usage in usages),
        "input_tokens": sum(usage.input_tokens for usage in usages),
        "output_tokens": sum(usage.output_tokens for usage in usages),
        "cost_usd": sum(costs) if usages and len(costs) == len(usages) else None,
    }


def _seconds_by_agent(records: Sequence[Record]) -> dict[str, float]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for record in records:
        for agent, spent in record.seconds_by_agent.items():
            seconds[agent] += spent
    return {agent: round(spent, 3) for agent, spent in seconds.items()}
