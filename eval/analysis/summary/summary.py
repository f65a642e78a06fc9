"""The numbers of a run, made from its records alone.

    summarise("run-1", store.records(), simulated=False, wall_seconds=63.1)["accuracy"]      # 0.3774

Accuracy divides by every answer that has a gold answer, those in error included; its interval is clustered by question.
While answers are to come, these count as wrong: the accuracy is then a floor, and nothing else is said of the whole.
Per (question, epoch) the last attempt counts; usage and agents' seconds add up over all attempts, since all of them
were paid for. The records may be a stream: of each, only `eval.analysis.summary.row.Row` is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.analysis.summary.epochs import count_correct, group_by_sample, measure_agreement, summarise_epochs
from eval.analysis.summary.row import Row, build_row
from eval.analysis.summary.subsets import summarise_blocked, summarise_leaks, tuned_on_of
from eval.analysis.summary.totals import Spending
from eval.analysis.tuned_on import UsedToTune
from eval.runs.record import NOT_RUN, Record
from eval.runs.store import UNFINISHED
from mas.simulation import SIMULATED_NOTICE

INFRASTRUCTURE = "infrastructure"  # error class of faults that `run.retry_errors=true` tries again
TO_COME = (NOT_RUN, *UNFINISHED)  # error classes of what going on with the run asks, or asks again
MEASURED = ("folder", "system", "model", "data", "split", "prompts", "scorer")
SESSION_KEYS = ("started_at", "ended_at", "stopped", "changes")  # the machine's name stays in the run's own folder


class Attempt(Protocol):
    """A `Record` or a `Row`."""

    @property
    def sample_id(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def attempt(self) -> int: ...


AnAttempt = TypeVar("AnAttempt", bound=Attempt)


def summarise(
    run_id: str,
    records: Iterable[Record],
    *,
    simulated: bool,
    wall_seconds: float,
    bad_rows: Sequence[str] = (),
    stopped: str | None = None,
    epochs: int | None = None,
    question_ids: Collection[str] | None = None,
    model: str | None = None,
    measured: Mapping[str, str | None] | None = None,
    command: Sequence[str] = (),
    sessions: Sequence[Mapping[str, Any]] = (),
    gate_history: Sequence[Mapping[str, Any]] = (),
    unfinished: Mapping[str, Any] | None = None,
    used: UsedToTune | None = None,
) -> dict[str, Any]:
    """The content of `summary.json`; the key `mlflow` is null until the run has been exported.

    Args:
        run_id: of the run.
        records: each attempt; for a (question, epoch) the run never came to, what `planned.not_run` makes.
        simulated: whether a simulated model answered.
        wall_seconds: of all sessions together.
        bad_rows: of the dataset, that were skipped.
        stopped: why the run ended before all its questions did; these are in the numbers, as wrong.
        epochs: as planned; null: as many as the records have.
        question_ids: as planned; null: all that have a record. Attempts outside the plan only count as paid for.
        model: name of the model, to be told where its price is unknown.
        measured: what `eval.reports.heading.read_names` says of the run.
        command: the overrides as typed.
        sessions: `started_at, ended_at, stopped, changes` of each; more than one if the run was resumed.
        gate_history: how the number of requests at once went: `seconds, limit, reason`.
        unfinished: usage of questions that were interrupted and have no record yet; null: none.
        used: questions that the run's prompts were tuned on; null: it is not known.
    """
    spending, attempts, n_outside = Spending(), [], 0
    for record in records:
        spending.add(record)
        if is_planned(record, epochs, question_ids):
            attempts.append(build_row(record))
        else:
            n_outside += 1
    final = select_final_attempts(attempts)
    planned = epochs or len({each.epoch for each in final})
    incomplete = any(each.error_class in TO_COME for each in final)
    named = {**(measured or {}), "model": model}
    return {
        "run_id": run_id,
        **{key: named.get(key) for key in MEASURED},
        "simulated": simulated,
        "notice": SIMULATED_NOTICE if simulated else None,
        "stopped": stopped,
        "incomplete": incomplete,  # true: the accuracies are floors, without intervals
        **_counts(final, incomplete),
        "n_unscored": sum(not each.scored for each in final),
        "n_questions": len({each.sample_id for each in final}),
        "epochs": planned,
        "n_outside_plan": n_outside,
        "n_bad_rows": len(bad_rows),
        "bad_rows": list(bad_rows),
        "by_level": _by_level(final, incomplete),
        "by_epochs": None if incomplete else summarise_epochs(final, planned),
        "errors_by_class": _tally(each.error_class for each in final),
        "limits": _tally(each.limit for each in final),
        "retried": _retried(attempts, final),
        "format_loss": sum(each.format_loss for each in final),
        "mean_score": _mean_score(final),
        "judge_agreement": _judge_agreement(final),
        "used_to_tune": _without_interval(tuned_on_of(final, used), incomplete),
        "leaks": _without_interval(summarise_leaks(final), incomplete),
        "blocked_pages": summarise_blocked(attempts),
        "usage": spending.usage.to_dict(),
        "scorer_usage": spending.scorer_usage.to_dict(),
        "unfinished": dict(unfinished) if unfinished else None,  # outside `usage`, until it is in a record
        "by_agent": spending.by_agent(),
        "calls_by_tool": dict(spending.calls_by_tool.most_common()),
        "tool_errors": dict(spending.tool_errors.most_common()),  # of these; all attempts, as in `usage`
        "wall_seconds": round(wall_seconds, 3),
        "waited_seconds": round(spending.waited_seconds, 3),
        "command": list(command),
        "sessions": [{key: each.get(key) for key in SESSION_KEYS} for each in sessions],
        "gate_history": [dict(each) for each in gate_history],
        "mlflow": None,
    }


def is_planned(attempt: Attempt, epochs: int | None, question_ids: Collection[str] | None) -> bool:
    """Whether the plan has this question and epoch: it may have become smaller (`run.allow_config_change`)."""
    return (epochs is None or attempt.epoch <= epochs) and (question_ids is None or attempt.sample_id in question_ids)


def select_final_attempts(attempts: Iterable[AnAttempt]) -> list[AnAttempt]:
    """The last attempt at each (question, epoch), in the order in which these first appear."""
    final: dict[tuple[str, int], AnAttempt] = {}
    for each in attempts:
        key = (each.sample_id, each.epoch)
        if key not in final or each.attempt > final[key].attempt:
            final[key] = each
    return list(final.values())


def _counts(rows: Sequence[Row], incomplete: bool) -> dict[str, Any]:
    scored = [each for each in rows if each.scored]
    n_correct = sum(each.correct for each in scored)
    interval = (
        None
        if incomplete
        else compute_clustered_interval([count_correct(question) for question in group_by_sample(scored)])
    )
    return {
        "n": len(rows),
        "n_scored": len(scored),
        "n_correct": n_correct,
        "n_wrong": sum(not each.correct and each.error_class is None for each in scored),  # answered, and wrongly
        "accuracy": n_correct / len(scored) if scored else None,
        "accuracy_ci95": list(interval) if interval else None,
        "n_error": sum(each.error_class is not None for each in rows),
        "n_infrastructure": sum(each.error_class == INFRASTRUCTURE for each in rows),  # of the errors
        "n_not_run": sum(each.error_class == NOT_RUN for each in rows),  # likewise
    }


def _by_level(rows: Sequence[Row], incomplete: bool) -> dict[str, dict[str, Any]]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for each in rows:
        if each.level is not None:
            groups[each.level].append(each)
    return {level: _counts(groups[level], incomplete) for level in sorted(groups)}


def _without_interval(numbers: dict[str, Any] | None, incomplete: bool) -> dict[str, Any] | None:
    return {**numbers, "accuracy_without_ci95": None} if numbers and incomplete else numbers


def _tally(names: Iterable[str | None]) -> dict[str, int]:
    """The most frequent first."""
    return dict(Counter(name for name in names if name is not None).most_common())


def _retried(attempts: Sequence[Row], final: Sequence[Row]) -> dict[str, Any]:
    """What trying again after an error changed; `accuracy_first_tries` is the accuracy had nothing been tried again."""
    first: dict[tuple[str, int], Row] = {}
    for each in attempts:
        key = (each.sample_id, each.epoch)
        if key not in first or each.attempt < first[key].attempt:
            first[key] = each
    again = [each for each in final if each is not first[each.sample_id, each.epoch]]
    scored = [each for each in first.values() if each.scored]
    return {
        "n": len(again),
        "recovered": sum(each.error_class is None for each in again),
        "accuracy_first_tries": sum(each.correct for each in scored) / len(scored) if scored else None,
    }


def _mean_score(rows: Sequence[Row]) -> float | None:
    """With partial credit, over the same answers as the accuracy; null where no answer is partly right."""
    scores = [each.score or 0.0 for each in rows if each.scored]
    return sum(scores) / len(scores) if any(0 < score < 1 for score in scores) else None


def _judge_agreement(rows: Sequence[Row]) -> dict[str, Any] | None:
    """How far a judge agrees with each rule on the answers that it judged; null without a judge."""
    judged = [(each.correct, *each.judged) for each in rows if each.judged is not None]
    if not judged:
        return None
    return {
        "rule": measure_agreement([(correct, rule) for correct, rule, _ in judged]),
        "exact": measure_agreement([(correct, exact) for correct, _, exact in judged]),
    }
