"""Build a run's summary from a stream of its records, of which only `Row`s are kept.

details = RunDetails(run_id="run-1", simulated=False, wall_seconds=63.1)
summarise(store.records(without_trajectory=True), details).accuracy      # 0.3774
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from eval.analysis.summary.rows import (
    NO_LABELS,
    Key,
    Row,
    Spending,
    build_row,
    measure,
    measure_without,
)
from eval.analysis.summary.summary import (
    Counts,
    ExtraNumbers,
    LeakedResult,
    Leaks,
    LostPoints,
    PartNumbers,
    Retried,
    RunFacts,
    Summary,
    TuningOverlap,
)
from eval.benchmarks.dataset import EXPECTED
from eval.runs.record import NOT_RUN, Record
from eval.runs.store import UNFINISHED
from eval.scorers.labels import LabelSet
from eval.scorers.score import name_metric, read_value
from mas.simulation import SIMULATED_NOTICE

if TYPE_CHECKING:
    from eval.analysis.attribution.broken_link import BrokenLink
    from eval.analysis.attribution.run_attribution import RunAttribution
    from eval.analysis.tuned_on import UsedToTune

MAX_TAG_VALUES = 30  # of one tag: those with the most questions
MIN_PARTS, MAX_PARTS = 2, 12  # of a score, to be summarised
INFRASTRUCTURE = "infrastructure"  # error class of faults that `run.retry_errors=true` runs again
MISSING = (NOT_RUN, *UNFINISHED)  # error classes of the samples that resuming runs, or runs again


@dataclass(frozen=True, kw_only=True)
class RunDetails(RunFacts):
    """Everything a summary says of a run that its records do not hold, and what is needed to read them."""

    labels: LabelSet = NO_LABELS  # that the targets are
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # sample id → tag → value
    shown_tags: tuple[str, ...] = ()  # as `data.tags` names them
    extra_scorers: Mapping[str, str | None] = field(default_factory=dict)  # name → scorer
    epochs: int | None = None  # as planned; None: as many as the records have
    sample_ids: Collection[str] | None = None  # as planned; None: all that have a record
    attribution: "RunAttribution | None" = None  # None: not computed
    agents_with_tools: tuple[str, ...] = ()
    used: "UsedToTune | None" = None  # samples that the run's prompts were tuned on; None: unknown


def summarise(records: Iterable[Record], run: RunDetails) -> Summary:
    """Return the summary of a run.

    Args:
        records: each attempt; for a (sample, epoch) that was not run, a record with the error class `not_run`. Attempts
            outside the plan count only towards the usage.
        run: everything else about the run.
    """
    spending, attempts, n_outside = Spending(), list[Row](), 0
    for record in records:
        spending.add(record)
        if is_planned(record, run.epochs, run.sample_ids):
            attempts.append(build_row(record, run.labels))
        else:
            n_outside += 1
    final = select_final_attempts(attempts)
    scored = [each for each in final if each.scored]
    epochs = run.epochs or len({each.epoch for each in final})
    incomplete = any(each.error_class in MISSING for each in final)
    facts: dict[str, Any] = {each.name: getattr(run, each.name) for each in fields(RunFacts)}
    facts |= {"incomplete": incomplete, "wall_seconds": round(run.wall_seconds, 3)}
    facts["notice"] = SIMULATED_NOTICE if run.simulated else None
    return Summary(
        **facts,
        **vars(count_answers(final, incomplete)),
        **_summarise_rest(final, run, epochs, incomplete),
        metric=name_metric(run.scorer, [each.value for each in final]),
        n_unscored=len(final) - len(scored),
        n_questions=len({each.sample_id for each in final}),
        epochs=epochs,
        n_outside_plan=n_outside,
        by_level=_count_groups(final, lambda row: row.level, incomplete),
        by_tag=_count_by_tag(final, run.tags, incomplete),
        tags=run.shown_tags,
        errors_by_class=_tally(each.error_class for each in final),
        first_errors=_find_first_errors(final),
        limits=_tally(each.limit for each in final),
        retried=_summarise_retried(attempts, final),
        format_loss=sum(each.format_loss for each in final),
        extra_scorers={
            name: _summarise_extra(name, scorer, scored, incomplete) for name, scorer in run.extra_scorers.items()
        },
        parts=_summarise_parts(scored, incomplete),
        leaks=_summarise_leaks(final, incomplete),
        blocked_pages=_tally(host for each in attempts for host, n in each.blocked_pages for _ in range(n)),
        usage=spending.usage,
        scorer_usage=spending.scorer_usage,
        by_agent={agent: round(seconds, 3) for agent, seconds in spending.seconds_by_agent.items()},
        calls_by_tool=dict(spending.calls_by_tool.most_common()),
        agents_without_calls=()
        if spending.calls_by_tool
        else tuple(each for each in run.agents_with_tools if each in spending.seconds_by_agent),
        tool_errors=dict(spending.tool_errors.most_common()),
        first_tool_errors=spending.first_tool_errors,
        waited_seconds=round(spending.waited_seconds, 3),
        peak_memory_mb=max((each.peak_memory_mb or 0.0 for each in run.sessions), default=0.0) or None,
    )


def _summarise_rest(final: Sequence[Row], run: RunDetails, epochs: int, incomplete: bool) -> dict[str, Any]:
    """Return what few runs have; it is loaded where a run has it."""
    found: dict[str, Any] = {}
    if run.labels:
        from eval.analysis.summary.label_metrics import summarise_labels

        found["labels"] = summarise_labels(final, run.labels.names, incomplete)
    if epochs > 1 and not incomplete:
        from eval.analysis.summary.epochs import summarise_epochs

        found["by_epochs"] = summarise_epochs(final, epochs)
    if any(each.human for each in final):
        from eval.analysis.summary.human_review import summarise_review

        found["human_review"] = summarise_review(final, incomplete)
    if run.attribution:
        found["attribution"] = tuple(_count_lost_points(final, run.attribution.links, incomplete))
        found["critics"] = dict(sorted(run.attribution.critics.items()))
    if run.used:
        found["used_to_tune"] = _summarise_tuning(final, run.used, incomplete)
    return found


def is_planned(attempt: Record | Row, epochs: int | None, sample_ids: Collection[str] | None) -> bool:
    """Return whether the plan has this (sample, epoch): it may have shrunk (`run.allow_config_change`)."""
    return (epochs is None or attempt.epoch <= epochs) and (sample_ids is None or attempt.sample_id in sample_ids)


def select_final_attempts(attempts: Iterable[Row]) -> list[Row]:
    """Return the last attempt at each (sample, epoch), in the order in which these first appear."""
    final: dict[Key, Row] = {}
    for each in attempts:
        if each.key not in final or each.attempt > final[each.key].attempt:
            final[each.key] = each
    return list(final.values())


def count_answers(rows: Sequence[Row], incomplete: bool) -> Counts:
    """Return the counts of some answers; `incomplete`: answers are missing, and so are intervals."""
    scored = [each for each in rows if each.scored]
    accuracy, accuracy_ci95 = measure(scored, incomplete, lambda row: float(row.correct))
    score, score_ci95 = measure(scored, incomplete)
    return Counts(
        n=len(rows),
        n_scored=len(scored),
        n_correct=sum(each.correct for each in scored),
        n_wrong=sum(not each.correct and each.error_class is None for each in scored),
        accuracy=accuracy,
        accuracy_ci95=accuracy_ci95,
        score=score,
        score_ci95=score_ci95,
        n_error=sum(each.error_class is not None for each in rows),
        n_infrastructure=sum(each.error_class == INFRASTRUCTURE for each in rows),
        n_not_run=sum(each.error_class == NOT_RUN for each in rows),
    )


def _count_groups(rows: Iterable[Row], read: Callable[[Row], str | None], incomplete: bool) -> dict[str, Counts]:
    """Return the counts of each value that the rows have; of very many values those of the most frequent."""
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for each in rows:
        if (value := read(each)) is not None:
            groups[value].append(each)
    kept = sorted(groups, key=lambda value: (-len(groups[value]), value))[:MAX_TAG_VALUES]
    return {value: count_answers(groups[value], incomplete) for value in sorted(kept)}


def _count_by_tag(
    rows: Sequence[Row], tags: Mapping[str, Mapping[str, str]], incomplete: bool
) -> dict[str, dict[str, Counts]]:
    """Return the counts of each value of each tag that has several."""
    names = dict.fromkeys(tag for each in rows for tag in tags.get(each.sample_id, {}) if tag != EXPECTED)
    found = {tag: _count_groups(rows, lambda row: tags.get(row.sample_id, {}).get(tag), incomplete) for tag in names}  # noqa: B023
    return {tag: counts for tag, counts in found.items() if len(counts) > 1}


def _tally(names: Iterable[str | None]) -> dict[str, int]:
    """Return the frequency of each name, the most frequent first."""
    return dict(Counter(name for name in names if name is not None).most_common())


def _find_first_errors(rows: Sequence[Row]) -> dict[str, str]:
    """Return the message of the first error of each class that was met; nothing was met where nothing was run."""
    first: dict[str, str] = {}
    for each in rows:
        if each.error_class not in (None, NOT_RUN) and each.error:
            first.setdefault(str(each.error_class), each.error)
    return first


def _summarise_retried(attempts: Sequence[Row], final: Sequence[Row]) -> Retried:
    first: dict[Key, int] = {}  # number of the first attempt
    for each in attempts:
        first[each.key] = min(each.attempt, first.get(each.key, each.attempt))
    again = [each for each in final if each.attempt > first[each.key]]
    return Retried(n=len(again), recovered=sum(each.error_class is None for each in again))


def _summarise_extra(name: str, scorer: str | None, scored: Sequence[Row], incomplete: bool) -> ExtraNumbers:
    """Return an extra scorer's mean over all answers with a target; what has no value from it counts as 0."""
    values = {id(row): read_value(value) for row in scored for of, value, _ in row.extra if of == name}
    score, score_ci95 = measure(scored, incomplete, lambda row: values.get(id(row), 0.0))
    errors = [error for row in scored for of, _, error in row.extra if of == name and error]
    return ExtraNumbers(
        metric=name_metric(scorer, [values.get(id(row), 0.0) for row in scored]),
        score=score,
        score_ci95=score_ci95,
        n_scored=len(scored),
        n_failed=len(errors),
        first_error=errors[0] if errors else None,
    )


def _summarise_parts(scored: Sequence[Row], incomplete: bool) -> dict[str, PartNumbers]:
    """Return the mean of each part; none if the score has one or very many, or parts that are no shares."""
    values = [part for each in scored for part in each.parts]
    names = dict.fromkeys(name for name, _ in values)
    if not MIN_PARTS <= len(names) <= MAX_PARTS or any(not 0 <= value <= 1 for _, value in values):
        return {}
    found = {}
    for name in names:
        having = [each for each in scored if each.error_class or name in dict(each.parts)]
        score, interval = measure(having, incomplete, lambda row: dict(row.parts).get(name, 0.0))  # noqa: B023
        found[name] = PartNumbers(score=score or 0.0, score_ci95=interval, n=len(having))
    return found


def _count_lost_points(final: Sequence[Row], links: "Mapping[Key, BrokenLink]", incomplete: bool) -> list[LostPoints]:
    """Return the points lost at each link, the most first. Together they are what the metric lacks to 1."""
    scored = [each for each in final if each.scored]
    lost: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)  # kind and name of a link → answers
    for each in scored:
        if each.value < 1:
            link = links.get(each.key)
            lost[(link.kind, link.name) if link else ("error", each.error_class or NOT_RUN)].add(each.key)
    found = []
    for (kind, name), keys in lost.items():
        points, interval = measure(scored, incomplete, lambda row: 1.0 - row.value if row.key in keys else 0.0)  # noqa: B023
        found.append(LostPoints(kind=kind, name=name, n=len(keys), points=points or 0.0, points_ci95=interval))
    return sorted(found, key=lambda each: (-each.points, each.kind, each.name))


def _summarise_leaks(final: Sequence[Row], incomplete: bool) -> Leaks:
    results = [(each, *result) for each in final for result in each.leaks]
    sample_ids = {each.sample_id for each, *_ in results}
    return Leaks(
        n_questions=len(sample_ids),
        results=tuple(
            LeakedResult(sample_id=each.sample_id, epoch=each.epoch, tool=tool, source=source)
            for each, tool, source in results
        ),
        **vars(measure_without(final, sample_ids, incomplete)),
    )


def _summarise_tuning(final: Sequence[Row], used: "UsedToTune", incomplete: bool) -> TuningOverlap | None:
    """Return the overlap with the samples that have a target: no other is in the accuracy."""
    sample_ids = {each.sample_id for each in final if each.scored}
    if not sample_ids:
        return None
    overlap = used.among(sample_ids)
    return TuningOverlap(
        prompts=overlap.prompts,
        n_questions=len(overlap.ids) or (None if overlap.edited else 0),
        n_all=len(sample_ids),
        n_unscored=len({each.sample_id for each in final} - sample_ids),
        edited=overlap.edited,
        n_learnt_from=len(overlap.learnt_from),
        n_picked_by=len(overlap.picked_by),
        **vars(measure_without(final, overlap.ids, incomplete)),
    )
