"""Build a run's summary from a stream of its records, of which only `Row`s are kept.

details = RunDetails(run_id="run-1", simulated=False, wall_seconds=63.1)
summarise(store.records(without_trajectory=True), details).accuracy      # 0.3774
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from eval.analysis.summary.rows import (
    NO_LABELS,
    Key,
    Row,
    Spending,
    build_row,
    measure,
    measure_correct,
    measure_share,
    measure_without,
)
from eval.analysis.summary.summary import (
    Counts,
    CriticNumbers,
    EpochNumbers,
    ExtraNumbers,
    HumanAgreement,
    HumanReview,
    LabelSummary,
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
from eval.scorers.score import JUDGE, name_metric, read_value
from mas.simulation import SIMULATED_NOTICE

if TYPE_CHECKING:
    from eval.analysis.attribution.broken_link import BrokenLink
    from eval.analysis.attribution.critics import CriticCount
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
    spending, attempts, n_outside = Spending(), [], 0
    for record in records:
        spending.add(record)
        if is_planned(record, run.epochs, run.sample_ids):
            attempts.append(build_row(record, run.labels))
        else:
            n_outside += 1
    final = select_final_attempts(attempts)
    epochs = run.epochs or len({each.epoch for each in final})
    incomplete = any(each.error_class in MISSING for each in final)
    found, critics = run.attribution, run.attribution.critics if run.attribution else {}
    facts: dict[str, Any] = {each.name: getattr(run, each.name) for each in fields(RunFacts)}
    facts |= {"incomplete": incomplete, "wall_seconds": round(run.wall_seconds, 3)}
    facts["notice"] = SIMULATED_NOTICE if run.simulated else None
    return Summary(
        **facts,
        **vars(_count(final, incomplete)),
        metric=name_metric(run.scorer, [each.value for each in final]),
        n_unscored=sum(not each.scored for each in final),
        n_questions=len({each.sample_id for each in final}),
        epochs=epochs,
        n_outside_plan=n_outside,
        by_level=_count_by_level(final, incomplete),
        by_tag=_count_by_tag(final, run.tags, incomplete),
        tags=run.shown_tags,
        labels=_summarise_labels(final, run.labels, incomplete),
        by_epochs=None if incomplete or epochs < 2 else _summarise_epochs(final, epochs),
        errors_by_class=_tally(each.error_class for each in final),
        first_errors=_find_first_errors(final),
        limits=_tally(each.limit for each in final),
        retried=_summarise_retried(attempts, final),
        format_loss=sum(each.format_loss for each in final),
        extra_scorers={
            name: _summarise_extra(name, scorer, final, incomplete) for name, scorer in run.extra_scorers.items()
        },
        parts=_summarise_parts(final, incomplete),
        judge_agreement=_compare_with_people(final) if run.scorer == JUDGE else None,
        human_review=_summarise_review(final, incomplete),
        attribution=tuple(_count_lost_points(final, found.links, incomplete)) if found else None,
        critics={name: _summarise_critic(critics[name], incomplete) for name in sorted(critics)},
        used_to_tune=_summarise_tuning(final, run.used, incomplete),
        leaks=_summarise_leaks(final, incomplete),
        blocked_pages=_count_blocked(attempts),
        usage=spending.usage.total(),
        scorer_usage=spending.scorer_usage.total(),
        by_agent={agent: round(seconds, 3) for agent, seconds in spending.seconds_by_agent.items()},
        calls_by_tool=dict(spending.calls_by_tool.most_common()),
        agents_without_calls=_find_idle(run.agents_with_tools, spending),
        tool_errors=dict(spending.tool_errors.most_common()),
        first_tool_errors=spending.first_tool_errors,
        waited_seconds=round(spending.waited_seconds, 3),
        peak_memory_mb=max((each.peak_memory_mb or 0.0 for each in run.sessions), default=0.0) or None,
    )


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


def _find_idle(with_tools: Sequence[str], spending: Spending) -> tuple[str, ...]:
    """Return the agents with tools that worked, if no tool was called in the whole run."""
    return () if spending.calls_by_tool else tuple(each for each in with_tools if each in spending.seconds_by_agent)


def _count(rows: Sequence[Row], incomplete: bool) -> Counts:
    scored = [each for each in rows if each.scored]
    accuracy, accuracy_ci95 = measure_correct(scored, incomplete)
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


def _count_by_level(rows: Sequence[Row], incomplete: bool) -> dict[str, Counts]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for each in rows:
        if each.level is not None:
            groups[each.level].append(each)
    return {level: _count(groups[level], incomplete) for level in sorted(groups)}


def _count_by_tag(
    rows: Sequence[Row], tags: Mapping[str, Mapping[str, str]], incomplete: bool
) -> dict[str, dict[str, Counts]]:
    """Return the counts of each value of each tag that has several; of very many values those of the most frequent."""
    groups: defaultdict[str, defaultdict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for each in rows:
        for tag, value in tags.get(each.sample_id, {}).items():
            if tag == EXPECTED:
                continue
            groups[tag][value].append(each)
    return {
        tag: {value: _count(found, incomplete) for value, found in _keep_most(values).items()}
        for tag, values in groups.items()
        if len(values) > 1
    }


def _keep_most(values: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    kept = sorted(values, key=lambda value: (-len(values[value]), value))[:MAX_TAG_VALUES]
    return {value: values[value] for value in sorted(kept)}


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


def _summarise_extra(name: str, scorer: str | None, final: Sequence[Row], incomplete: bool) -> ExtraNumbers:
    """Return an extra scorer's mean over all answers with a target; what has no value from it counts as 0."""
    scored = [each for each in final if each.scored]
    values = {id(each): read_value(dict(each.extra).get(name)) for each in scored}
    score, score_ci95 = measure(scored, incomplete, lambda row: values[id(row)])
    errors = [text for each in final for of, text in each.extra_errors if of == name]
    return ExtraNumbers(
        metric=name_metric(scorer, values.values()),
        score=score,
        score_ci95=score_ci95,
        n_scored=len(scored),
        n_failed=len(errors),
        first_error=errors[0] if errors else None,
    )


def _summarise_parts(final: Sequence[Row], incomplete: bool) -> dict[str, PartNumbers]:
    """Return the mean of each part; none if the score has one or very many, or parts that are no shares."""
    scored = [each for each in final if each.scored]
    names = list(dict.fromkeys(name for each in scored for name, _ in each.parts))
    if not MIN_PARTS <= len(names) <= MAX_PARTS or any(
        not 0 <= value <= 1 for each in scored for _, value in each.parts
    ):
        return {}
    return {name: _summarise_part(name, scored, incomplete) for name in names}


def _summarise_part(name: str, scored: Sequence[Row], incomplete: bool) -> PartNumbers:
    having = [each for each in scored if each.error_class or name in dict(each.parts)]
    score, interval = measure(having, incomplete, lambda row: dict(row.parts).get(name, 0.0))
    return PartNumbers(score=score or 0.0, score_ci95=interval, n=len(having))


# What few runs have is loaded where a run has it.


def _summarise_labels(final: Sequence[Row], labels: LabelSet, incomplete: bool) -> LabelSummary | None:
    if not labels:
        return None
    from eval.analysis.summary.label_metrics import summarise_labels

    return summarise_labels(final, labels.names, incomplete)


def _summarise_epochs(final: Sequence[Row], epochs: int) -> EpochNumbers | None:
    from eval.analysis.summary.epochs import summarise_epochs

    return summarise_epochs(final, epochs)


def _summarise_review(final: Sequence[Row], incomplete: bool) -> HumanReview | None:
    if not any(each.human for each in final):
        return None
    from eval.analysis.summary.human_review import summarise_review

    return summarise_review(final, incomplete)


def _count_lost_points(final: Sequence[Row], links: "Mapping[Key, BrokenLink]", incomplete: bool) -> list[LostPoints]:
    """Return the points lost at each link, the most first. Together they are what the metric lacks to 1."""
    scored = [each for each in final if each.scored]
    lost: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)  # kind and name of a link → answers
    for each in scored:
        if each.value < 1:
            link = links.get(each.key)
            lost[(link.kind, link.name) if link else ("error", each.error_class or NOT_RUN)].add(each.key)
    numbers = [_count_link(*link, keys, scored, incomplete) for link, keys in lost.items()]
    return sorted(numbers, key=lambda each: (-each.points, each.kind, each.name))


def _count_link(kind: str, name: str, keys: Collection[Key], scored: Sequence[Row], incomplete: bool) -> LostPoints:
    points, interval = measure(scored, incomplete, lambda row: 1.0 - row.value if row.key in keys else 0.0)
    return LostPoints(kind=kind, name=name, n=len(keys), points=points or 0.0, points_ci95=interval)


def _summarise_critic(count: "CriticCount", incomplete: bool) -> CriticNumbers:
    reviews = list(count.by_sample.values())
    justified = [(each.rejected_wrong, each.rejected_wrong + each.rejected_right) for each in reviews]
    found = [(each.rejected_wrong, each.rejected_wrong + each.approved_wrong) for each in reviews]
    precision, recall = measure_share(justified, incomplete), measure_share(found, incomplete)
    return CriticNumbers(
        judges=tuple(sorted(count.judges)),
        n_reviews=count.n_reviews,
        approved_right=sum(each.approved_right for each in reviews),
        misses=sum(each.approved_wrong for each in reviews),
        false_alarms=sum(each.rejected_right for each in reviews),
        hits=sum(each.rejected_wrong for each in reviews),
        n_unknown=count.n_unknown,
        precision=precision[0],
        precision_ci95=precision[1],
        recall=recall[0],
        recall_ci95=recall[1],
        n_rejections=count.n_rejections,
        n_quoting=count.n_quoting,
        n_rejecting=count.n_rejecting,
        n_recovered=count.n_recovered,
    )


def _compare_with_people(final: Sequence[Row]) -> HumanAgreement | None:
    if not any(each.human for each in final):
        return None
    from eval.analysis.summary.human_review import compare_with_people

    return compare_with_people([each for each in final if each.scored and each.error_class is None])


def _summarise_leaks(final: Sequence[Row], incomplete: bool) -> Leaks:
    met = [each for each in final if each.leaks]
    sample_ids = {each.sample_id for each in met}
    return Leaks(
        n_questions=len(sample_ids),
        results=tuple(
            LeakedResult(sample_id=each.sample_id, epoch=each.epoch, tool=tool, source=source)
            for each in met
            for tool, source in each.leaks
        ),
        **vars(measure_without(final, sample_ids, incomplete)),
    )


def _count_blocked(attempts: Iterable[Row]) -> dict[str, int]:
    hosts: Counter[str] = Counter()
    for each in attempts:
        hosts.update(dict(each.blocked_pages))
    return dict(hosts.most_common())


def _summarise_tuning(final: Sequence[Row], used: "UsedToTune | None", incomplete: bool) -> TuningOverlap | None:
    """Return the overlap with the samples that have a target: no other is in the accuracy."""
    sample_ids = {each.sample_id for each in final if each.scored}
    if used is None or not sample_ids:
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
