"""Build a run's summary from its store alone, also while it is going on; of each record only a little is kept.

with open_run(folder) as store:
    summarise_store(store).accuracy      # 0.3774
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from eval.analysis.summary.measures import REMARKS, Key, add_usage, get_key, measure, shorten_record
from eval.analysis.summary.summary import Counts, LostPoints, Summary
from eval.benchmarks.dataset import EXPECTED
from eval.runs.folder import is_in_use
from eval.runs.record import NOT_RUN, PlannedQuestion, Record, Usage, build_missing_record
from eval.runs.run_info import SILENT, RunInfo, RunState, SessionInfo
from eval.runs.store import UNFINISHED, RunStore
from eval.scorers.score import name_metric, read_scorer_name
from mas.simulation import SIMULATED_NOTICE

if TYPE_CHECKING:
    from eval.analysis.attribution.broken_link import BrokenLink, RunAttribution

GOING_ON = "it is still going on"
WITHOUT_RECORD = "some questions ended without a record"
MAX_TAG_VALUES = 30  # of one tag: those with the most questions
MISSING = (NOT_RUN, *UNFINISHED)  # error classes of the samples that resuming runs, or runs again


def summarise_store(store: RunStore, attribution: "RunAttribution | None" = None) -> Summary:
    """Return the numbers of the run as far as it has come; raise StoreError if the store cannot be read."""
    info, state, folder = store.read_info(), store.read_state(), store.path.resolve().parent
    state = replace(state, wall_seconds=state.wall_seconds + _measure_open_session(state.sessions, store))
    records = chain(store.records(without_trajectory=True), read_missing(store))
    summary = summarise(records, info, state, store.read_plan(), attribution)
    return replace(summary, folder=folder.name, stopped=_find_stop_reason(state.sessions, store))


def summarise(
    records: Iterable[Record],
    info: RunInfo,
    state: RunState,
    plan: Sequence[PlannedQuestion],
    attribution: "RunAttribution | None" = None,
) -> Summary:
    """Return the summary of a run, without its folder and why it stopped.

    `records`: each attempt; for a (sample, epoch) that was not run, one with the error class `not_run`. Those that the
    plan no longer has count only towards the usage.
    """
    last, ids = dict[Key, Record](), {each.id for each in plan}
    usage, scorer_usage, waited_seconds, by_agent = Usage(), Usage(), 0.0, dict[str, float]()
    calls, failed, first_tool_errors = Counter[str](), Counter[str](), dict[str, str]()
    for record in records:  # all attempts were paid for
        usage, scorer_usage = add_usage(usage, record.usage), add_usage(scorer_usage, record.scorer_usage)
        waited_seconds += record.waited_seconds
        for agent, seconds in record.seconds_by_agent.items():
            by_agent[agent] = by_agent.get(agent, 0.0) + seconds
        calls.update(record.calls_by_tool)
        failed.update(record.tool_errors)
        first_tool_errors = {**record.first_tool_errors, **first_tool_errors}
        key = get_key(record)
        if is_planned(record, info.epochs, ids) and (key not in last or record.attempt > last[key].attempt):
            last[key] = shorten_record(record)
    final = list(last.values())
    scored = [each for each in final if each.scored]
    errors = _tally(each.error_class for each in final)
    incomplete = any(name in MISSING for name in errors)
    scorer, tools = read_scorer_name(info.part("scorer")), (info.tools or {}).items()
    idle = tuple(agent for agent, names in tools if names and agent in by_agent)
    return Summary(
        **vars(count_answers(final, incomplete)),
        **_summarise_rest(final, info, incomplete),
        run_id=info.run_id,
        system=info.system or info.part("system").get("name"),
        model=info.model or None,
        data=info.part("data").get("name"),
        split=info.config.get("split"),
        prompts=info.prompts_name,
        scorer=scorer,
        simulated=info.simulated,
        notice=SIMULATED_NOTICE if info.simulated else None,
        no_measurement=info.describe_gold(),
        incomplete=incomplete,
        wall_seconds=round(state.wall_seconds, 3),
        bad_rows=tuple(info.bad_rows),
        command=tuple(info.command or ()),
        sessions=tuple(state.sessions),
        unfinished=Usage(**state.unfinished) if state.unfinished else None,
        metric=name_metric(scorer, [each.value for each in final]),
        n_unscored=len(final) - len(scored),
        n_questions=len({each.sample_id for each in final}),
        epochs=info.epochs,
        by_level=_count_groups(final, lambda answer: answer.level, incomplete),
        by_tag=_count_by_tag(final, {each.id: each.tags for each in plan}, incomplete),
        tags=tuple(map(str, info.part("data").get("tags") or ())),
        errors_by_class=errors,
        first_errors={
            name: next((each.error for each in final if each.error and each.error_class == name), "")
            for name in errors
            if name != NOT_RUN  # nothing was met there
        },
        limits=_tally(each.limit for each in final),
        n_retried=sum(each.attempt > 1 for each in final),
        format_loss=sum(each.parts.get("format_loss", 0.0) > 0 for each in final),
        usage=usage,
        scorer_usage=scorer_usage,
        by_agent={agent: round(seconds, 3) for agent, seconds in by_agent.items()},
        calls_by_tool=dict(calls.most_common()),
        agents_without_calls=() if calls else idle,
        tool_errors=dict(failed.most_common()),
        first_tool_errors=first_tool_errors,
        waited_seconds=round(waited_seconds, 3),
        peak_memory_mb=max((each.peak_memory_mb or 0.0 for each in state.sessions), default=0.0) or None,
        attribution=tuple(_count_lost_points(scored, attribution.links, incomplete)) if attribution else None,
        critics=dict(sorted(attribution.critics.items())) if attribution else {},
    )


def _summarise_rest(final: Sequence[Record], info: RunInfo, incomplete: bool) -> dict[str, Any]:
    """Return what few runs have; it is loaded where a run has it."""
    of_answers = any(each.parts.keys() - REMARKS or each.leaks or each.human for each in final)
    if not (of_answers or info.task.labels or info.epochs > 1 or info.tuning_use or info.part("extra_scorers")):
        return {}
    from eval.analysis.summary.rare_numbers import summarise_rare

    return summarise_rare(final, info, incomplete)


def is_planned(attempt: Record, epochs: int, sample_ids: Collection[str]) -> bool:
    """Return whether the plan has this (sample, epoch): it may have shrunk (`run.allow_config_change`)."""
    return attempt.epoch <= epochs and attempt.sample_id in sample_ids


def count_answers(answers: Sequence[Record], incomplete: bool) -> Counts:
    """Return the counts of some answers; `incomplete`: answers are missing, and so are intervals."""
    scored = [each for each in answers if each.scored]
    accuracy, score = measure(scored, incomplete, lambda answer: float(answer.correct)), measure(scored, incomplete)
    return Counts(
        n=len(answers),
        n_scored=len(scored),
        n_correct=sum(each.correct for each in scored),
        n_wrong=sum(not each.correct and each.error_class is None for each in scored),
        accuracy=accuracy.value,
        accuracy_ci95=accuracy.ci95,
        score=score.value,
        score_ci95=score.ci95,
        n_error=sum(each.error_class is not None for each in answers),
        n_not_run=sum(each.error_class == NOT_RUN for each in answers),
    )


def _count_groups(
    answers: Iterable[Record], read: Callable[[Record], str | None], incomplete: bool
) -> dict[str, Counts]:
    """Return the counts of each value that the answers have; of very many values those of the most frequent."""
    groups: defaultdict[str, list[Record]] = defaultdict(list)
    for each in answers:
        if (value := read(each)) is not None:
            groups[value].append(each)
    kept = sorted(groups, key=lambda value: (-len(groups[value]), value))[:MAX_TAG_VALUES]
    return {value: count_answers(groups[value], incomplete) for value in sorted(kept)}


def _count_by_tag(
    final: Sequence[Record], tags: Mapping[str, Mapping[str, str]], incomplete: bool
) -> dict[str, dict[str, Counts]]:
    """Return the counts of each value of each tag that has several."""
    names = dict.fromkeys(tag for each in final for tag in tags[each.sample_id] if tag != EXPECTED)
    found = {tag: _count_groups(final, lambda answer: tags[answer.sample_id].get(tag), incomplete) for tag in names}  # noqa: B023
    return {tag: counts for tag, counts in found.items() if len(counts) > 1}


def _tally(names: Iterable[str | None]) -> dict[str, int]:
    """Return the frequency of each name, the most frequent first."""
    return dict(Counter(name for name in names if name is not None).most_common())


def _count_lost_points(
    scored: Sequence[Record], links: "Mapping[Key, BrokenLink]", incomplete: bool
) -> list[LostPoints]:
    """Return the points lost at each link, the most first. Together they are what the metric lacks to 1."""
    lost: defaultdict[tuple[str, str], dict[Key, float]] = defaultdict(dict)  # by kind and name of a link
    for each in scored:
        if each.value < 1:
            key = get_key(each)
            link = links.get(key)
            lost[(link.kind, link.name) if link else ("error", each.error_class or NOT_RUN)][key] = 1.0 - each.value
    found = []
    for (kind, link_name), values in lost.items():
        points = measure(scored, incomplete, lambda answer: values.get(get_key(answer), 0.0))  # noqa: B023
        found.append(LostPoints(kind=kind, name=link_name, points=replace(points, n=len(values))))
    return sorted(found, key=lambda each: (-(each.points.value or 0.0), each.kind, each.name))


def read_missing(store: RunStore) -> Iterator[Record]:
    """Yield a record in error for each (sample, epoch) of the plan that has not been run."""
    info = store.read_info()
    for epoch in range(1, info.epochs + 1):
        for planned in store.list_missing(epoch):
            yield build_missing_record(info.run_id, planned, epoch)


def _find_stop_reason(sessions: Sequence[SessionInfo], store: RunStore) -> str | None:
    """Return why the run ended before its last sample, or has not ended yet; None if every sample has a record."""
    ended = bool(sessions) and sessions[-1].ended_at is not None
    if ended and sessions[-1].stopped:
        return sessions[-1].stopped
    if next(read_missing(store), None) is None:
        return None
    if ended or not store.read_only:
        return WITHOUT_RECORD
    return GOING_ON if is_in_use(store.path) else SILENT


def _measure_open_session(sessions: Sequence[SessionInfo], store: RunStore) -> float:
    """Return the seconds of a session that has not ended, or was killed: until its last answer."""
    finished_at = store.last_finished_at()
    if not sessions or sessions[-1].ended_at or finished_at is None:
        return 0.0
    began, ended = (datetime.fromisoformat(text) for text in (sessions[-1].started_at, finished_at))
    return max(0.0, (ended.replace(tzinfo=UTC) - began.replace(tzinfo=UTC)).total_seconds())
