"""Phases 4 and 5: the best candidates that leak nothing, asked afresh, so that luck in the search does not count.

A candidate whose prompts hold what they must not is dropped before it costs anything more, and is named.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from eval.analysis.statistics.intervals import Interval, compute_mean_interval
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet, digest
from optimize.gate.gate import FinishReason, GateSettings, find_long_prompts
from optimize.pipeline.baseline import AnswerMeans, Baseline
from optimize.publishing.leaks import LeakReport
from optimize.search.candidate import PARENT
from optimize.session.run_files import filter_fully_scored
from optimize.session.termination import EarlyVerdictError
from optimize.session.tuning_run import TuningRun

_FIRST_FRESH_EPOCH = 2  # the search's answers are those of the first


@dataclass(frozen=True)
class ShortlistEntry(AnswerMeans):
    """One entry of the shortlist, and what its fresh answers took; the parent is one of them."""

    candidate_id: str
    val_score: float  # in the search, 0 to 1
    fresh_score: float  # mean over questions and fresh answers
    fresh_ci95: Interval | None


def count_fresh_answers(run: TuningRun) -> int:
    """How many a full shortlist takes, the parent's among them."""
    settings = run.config.shortlist
    return (settings.size + 1) * settings.epochs * len(run.splits.val)


def choose_winner(run: TuningRun, proposals: Sequence[dict[str, Any]], measured: Baseline) -> ShortlistEntry:
    """
    Returns:
        The candidate that is to be tested.

    Raises:
        EndedError: there is none: nothing was better, or what was better leaks.
        HaltedError: it was stopped.
    """
    found = run.files.read("shortlist")
    if found is None:
        ids = _clean(run, _promising(run, proposals, measured))[: run.config.shortlist.size]
        listed = [_asked_afresh(run, PARENT, measured.val_score, measured)]
        listed += [_asked_afresh(run, each, _val_score(proposals, each), measured) for each in ids]
        found = [asdict(each) for each in listed]
        run.files.write("shortlist", found)
    parent, *others = [ShortlistEntry(**each) for each in found]
    if run.config.gate.objective == "cost":
        return _cheapest(parent, others, run.config.gate.margin)
    best = max(others, key=lambda each: each.fresh_score)
    if best.fresh_score <= parent.fresh_score:
        raise EarlyVerdictError(
            "no_accepted_candidate",
            f"asked afresh, {_none_of_the_best(others)} better than the prompts it began with "
            f"({best.fresh_score:.1%} against {parent.fresh_score:.1%} on validation); the sealed test was not opened",
        )
    return best


def _none_of_the_best(others: Sequence[ShortlistEntry]) -> str:
    return "the only candidate was not" if len(others) == 1 else f"none of the best {len(others)} was"


def _cheapest(parent: ShortlistEntry, others: Sequence[ShortlistEntry], margin: float) -> ShortlistEntry:
    """The cheapest of those that are about as good."""
    usd = {each.candidate_id: math.inf if each.cost_usd is None else each.cost_usd for each in others}
    good = [each for each in others if each.fresh_score >= parent.fresh_score - margin]
    best = min(good, key=lambda each: usd[each.candidate_id], default=None)
    if best is None or parent.cost_usd is None or usd[best.candidate_id] >= parent.cost_usd:
        raise EarlyVerdictError(
            "no_accepted_candidate",
            f"asked afresh, {_none_of_the_best(others)} as good as the prompts it began with and cheaper as far "
            "as is known; the sealed test was not opened",
        )
    return best


def compute_min_score(gate: GateSettings, parent_score: float) -> float:
    """On validation, of a candidate that is worth being asked afresh."""
    return parent_score - gate.margin if gate.objective == "cost" else math.nextafter(parent_score, 2.0)


def _promising(run: TuningRun, proposals: Sequence[dict[str, Any]], measured: Baseline) -> list[str]:
    """Candidates that beat the parent on validation, the best first; of equal ones the earliest.

    If costs are to be saved, those as well that are about as good.
    """
    least = compute_min_score(run.config.gate, measured.val_score)
    scored = filter_fully_scored(proposals)
    better = [each for each in scored if each["val_score"] >= least]
    if not better:
        none = "the only proposal" if len(proposals) == 1 else f"none of {len(proposals)} proposals"
        was = "was not" if len(proposals) == 1 else "was"
        raise EarlyVerdictError(
            "no_accepted_candidate",
            f"{none} ({len(scored)} scored on validation) {was} better than the prompts it began with "
            f"({measured.val_score:.1%})",
        )
    seen = {digest(run.parent.prompts)}
    ranked: list[str] = []
    for each in sorted(better, key=lambda line: -line["val_score"]):
        found = digest(run.read_prompts(each["candidate_id"]))
        if found not in seen:
            ranked.append(each["candidate_id"])
        seen.add(found)
    return ranked


def _clean(run: TuningRun, ids: Sequence[str]) -> list[str]:
    """Those that leak nothing and are not too long, as far as they are needed."""
    clean: list[str] = []
    reports: dict[str, LeakReport] = {}
    failures: set[FinishReason] = set()
    for candidate_id in ids:
        if len(clean) == run.config.shortlist.size:
            break
        prompts = run.read_prompts(candidate_id)
        report = reports[candidate_id] = run.check_leaks(prompts)
        if report.hits:
            run.show(f"  {candidate_id}: {'blocked: ' if report.blocked else ''}{report.summary()}")
        long = find_long_prompts(run.config.gate, prompts)
        if long:
            run.show(f"  {candidate_id}: too long for gate.max_prompt_chars: {', '.join(long)}")
        if report.blocked or long:
            failures.add("leak_blocked" if report.blocked else "too_long")
        else:
            clean.append(candidate_id)
    run.files.write("leaks", {each: report.to_dict() for each, report in reports.items()})
    if not clean:
        each = "the only candidate that was" if len(ids) == 1 else f"each of the {len(ids)} candidates that were"
        raise EarlyVerdictError(
            "leak_blocked" if "leak_blocked" in failures else "too_long",
            f"{each} better on validation holds answers, questions or ids of "
            "validation or sealed questions, or is too long; leaks.json says where",
        )
    return clean


def _val_score(proposals: Sequence[dict[str, Any]], candidate_id: str) -> float:
    return next(float(each["val_score"]) for each in proposals if each["candidate_id"] == candidate_id)


def _asked_afresh(run: TuningRun, candidate_id: str, val_score: float, measured: Baseline) -> ShortlistEntry:
    prompts: PromptSet = run.read_prompts(candidate_id)
    epochs = run.config.shortlist.epochs
    scores: dict[str, list[float]] = {sample_id: [] for sample_id in run.val_ids}
    records: list[Record] = []
    for epoch in range(_FIRST_FRESH_EPOCH, _FIRST_FRESH_EPOCH + epochs):
        for sample_id, trial in zip(run.val_ids, run.answers(prompts, epoch), strict=True):
            scores[sample_id].append(trial.record.score or 0.0)
            records.append(trial.record)
    means = [fmean(each) for each in scores.values()]
    taken = AnswerMeans.of(records)
    took = replace(taken, seconds=max(taken.seconds, measured.seconds))  # what was replayed took no time
    interval = compute_mean_interval(means, len(means) * epochs)
    listed = ShortlistEntry(candidate_id, val_score, fmean(means), interval, **asdict(took))
    run.show(f"  {candidate_id}: {listed.fresh_score:.1%} asked afresh ({val_score:.1%} in the search)")
    return listed
