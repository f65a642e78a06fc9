"""Phases 4 and 5: the best candidates that leak nothing, asked afresh, so that luck in the search does not count.

A candidate whose prompts hold what they must not is dropped before it costs anything more, and is named.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from eval.intervals import Interval, mean_interval
from mas.prompts import PromptSet, digest
from optimize.candidate import PARENT
from optimize.ending import EndedError, FinishReason
from optimize.gate import too_long
from optimize.leaks import LeakReport
from optimize.phases.baseline import Baseline
from optimize.tuning_run import TuningRun

_FIRST_FRESH_EPOCH = 2  # the search's answers are those of the first


@dataclass(frozen=True)
class Listed:
    """One entry of the shortlist; the parent is one of them."""

    candidate_id: str
    val_score: float  # in the search, 0 to 1
    fresh_score: float  # mean over questions and fresh answers
    fresh_ci95: Interval | None


def shortlist(run: TuningRun, proposals: Sequence[dict[str, Any]], measured: Baseline) -> str:
    """
    Returns:
        The id of the candidate that is to be tested.

    Raises:
        EndedError: there is none: nothing was better, or what was better leaks.
        HaltedError: it was stopped.
    """
    found = run.files.read("shortlist")
    if found is None:
        ids = _clean(run, _promising(run, proposals, measured))[: run.config.shortlist.size]
        listed = [_asked_afresh(run, PARENT, measured.val_score)]
        listed += [_asked_afresh(run, each, _val_score(proposals, each)) for each in ids]
        found = [asdict(each) for each in listed]
        run.files.write("shortlist", found)
    parent, *others = [Listed(**each) for each in found]
    best = max(others, key=lambda each: each.fresh_score)
    if best.fresh_score <= parent.fresh_score:
        raise EndedError(
            "no_accepted_candidate",
            f"asked afresh, none of the best {len(others)} was better than the prompts it began with "
            f"({best.fresh_score:.1%} against {parent.fresh_score:.1%} on validation); the sealed test was not opened",
        )
    return best.candidate_id


def _promising(run: TuningRun, proposals: Sequence[dict[str, Any]], measured: Baseline) -> list[str]:
    """Candidates that beat the parent on validation, the best first; of equal ones the earliest."""
    better = [each for each in proposals if (each["val_score"] or 0.0) > measured.val_score and _whole(each)]
    if not better:
        scored = sum(each["val_score"] is not None for each in proposals)
        raise EndedError(
            "no_accepted_candidate",
            f"none of {len(proposals)} proposals ({scored} scored on validation) was better than the prompts it began "
            f"with ({measured.val_score:.1%})",
        )
    seen = {digest(run.parent.prompts)}
    ranked: list[str] = []
    for each in sorted(better, key=lambda line: -line["val_score"]):
        found = digest(run.prompts_of(each["candidate_id"]))
        if found not in seen:
            ranked.append(each["candidate_id"])
        seen.add(found)
    return ranked


def _whole(line: dict[str, Any]) -> bool:
    return bool(line["decision"] != "cut_off")


def _clean(run: TuningRun, ids: Sequence[str]) -> list[str]:
    """Those that leak nothing and are not too long, as far as they are needed."""
    clean: list[str] = []
    reports: dict[str, LeakReport] = {}
    failures: set[FinishReason] = set()
    for candidate_id in ids:
        if len(clean) == run.config.shortlist.size:
            break
        prompts = run.prompts_of(candidate_id)
        report = reports[candidate_id] = run.leaks_of(prompts)
        run.show_leaks(candidate_id, report)
        long = too_long(run.config.gate, prompts)
        if long:
            run.show(f"  {candidate_id}: too long for gate.max_prompt_chars: {', '.join(long)}")
        if report.blocked or long:
            failures.add("leak_blocked" if report.blocked else "too_long")
        else:
            clean.append(candidate_id)
    run.files.write("leaks", {each: report.to_dict() for each, report in reports.items()})
    if not clean:
        raise EndedError(
            "leak_blocked" if "leak_blocked" in failures else "too_long",
            f"each of the {len(ids)} candidates that were better on validation holds answers, questions or ids of "
            "validation or sealed questions, or is too long; leaks.json says where",
        )
    return clean


def _val_score(proposals: Sequence[dict[str, Any]], candidate_id: str) -> float:
    return next(float(each["val_score"]) for each in proposals if each["candidate_id"] == candidate_id)


def _asked_afresh(run: TuningRun, candidate_id: str, val_score: float) -> Listed:
    prompts: PromptSet = run.prompts_of(candidate_id)
    epochs = run.config.shortlist.epochs
    scores: dict[str, list[float]] = {example_id: [] for example_id in run.val_ids}
    for epoch in range(_FIRST_FRESH_EPOCH, _FIRST_FRESH_EPOCH + epochs):
        for example_id, trial in zip(run.val_ids, run.answers(prompts, epoch), strict=True):
            scores[example_id].append(trial.record.score or 0.0)
    means = [fmean(each) for each in scores.values()]
    listed = Listed(candidate_id, val_score, fmean(means), mean_interval(means, len(means) * epochs))
    run.show(f"  {candidate_id}: {listed.fresh_score:.1%} asked afresh ({val_score:.1%} in the search)")
    return listed
