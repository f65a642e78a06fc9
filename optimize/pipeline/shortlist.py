"""Phases 2, 4 and 5: the parent's score on validation; later, the best candidates that leak nothing are re-evaluated.

New answers are needed because luck in the search must not count. A candidate whose prompts leak answers is dropped
before it costs more, and is named. The parent's new answers are a control: its score against that of the search is the
"gain" of an unchanged copy.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from eval.analysis.statistics.intervals import Interval, compute_metric_interval
from mas.prompt_sets.prompt_set import PromptSet, digest
from optimize.gate.verdict import EarlyVerdictError
from optimize.pipeline.cost_estimate import AnswerMeans
from optimize.publishing.leaks import LeakReport
from optimize.search.optimizer import PARENT
from optimize.session.tuning_run import TuningRun

_LEAKS = "contains answers, questions or ids of validation or sealed questions (see report.html)"
_FIRST_NEW_EPOCH = 2  # the answers of epoch 1 are the search's


@dataclass(frozen=True)
class Baseline(AnswerMeans):
    """Score and usage of the parent on the validation questions."""

    val_score: float  # 0 to 1; an answer in error counts as wrong
    ci95: Interval
    n_questions: int


def measure_baseline(run: TuningRun) -> Baseline:
    """Answer each validation question once; the search reuses these replies.

    Raises:
        EarlyVerdictError: the budget is used up, or the metric is broken.
        RunStoppedError: the run was stopped.
    """
    if (found := run.files.read("baseline")) is not None:
        return Baseline(**found)
    records = [trial.record for trial in run.answer_validation(run.parent)]
    interval = compute_metric_interval([[record.value] for record in records])
    assert interval is not None, "splits have at least two validation questions"
    score, usage = fmean(record.value for record in records), asdict(AnswerMeans.of(records))
    measured = Baseline(val_score=score, ci95=interval, n_questions=len(records), **usage)
    run.files.write("baseline", measured)
    return measured


@dataclass(frozen=True)
class ShortlistEntry(AnswerMeans):
    """A re-evaluated candidate, or the parent."""

    candidate_id: str
    val_score: float  # in the search, 0 to 1
    fresh_score: float  # mean over questions and new answers
    fresh_ci95: Interval | None


@dataclass(frozen=True)
class ApprovedSet:
    """The prompts that are tested and published: those of the shortlist, without leaks."""

    candidate_id: str
    prompts: PromptSet
    leaks: LeakReport

    @property
    def sha256(self) -> str:
        return digest(self.prompts)


def choose_winner(run: TuningRun, measured: Baseline) -> ShortlistEntry:
    """Re-evaluate the best candidates and return the one to test.

    Raises:
        EarlyVerdictError: there is none, because nothing was better, or what was better leaks.
        RunStoppedError: the run was stopped.
    """
    lines = run.files.read("shortlist")
    if lines is None:
        promising = _rank(run, measured)
        chosen = {PARENT: measured.val_score, **{each: promising[each] for each in _drop_leaking(run, promising)}}
        found = [_evaluate_again(run, candidate_id, score, measured) for candidate_id, score in chosen.items()]
        run.files.write("shortlist", found)
        lines = run.files.read("shortlist")
    parent, *others = [ShortlistEntry(**line) for line in lines]
    best = max(others, key=lambda each: each.fresh_score)
    gain, least = best.fresh_score - parent.fresh_score, run.config.shortlist.min_gain
    scores_of_both = f"({run.metric} {best.fresh_score:.1%} against {parent.fresh_score:.1%} on validation)"
    if gain <= 0:
        raise EarlyVerdictError(
            "no_accepted_candidate",
            f"after re-evaluation {_none_of_the_best(len(others))} better than the starting prompts "
            f"{scores_of_both}; the sealed test was not run",
        )
    if round(gain, 9) < least:  # 0.3 - 0.2 is less than 0.1
        raise EarlyVerdictError(
            "no_accepted_candidate",
            f"after re-evaluation {best.candidate_id} was better than the starting prompts by {100 * gain:.1f} points "
            f"only {scores_of_both}; the sealed test, which needs shortlist.min_gain={least:g}, was not run, and no "
            "sealed question was used",
        )
    return best


def approve_winner(run: TuningRun, winner: ShortlistEntry) -> ApprovedSet:
    """Return the prompts of the winner, checked once more as they are now: they are tested and published as returned.

    Raises:
        UserError: somebody has changed them since the run wrote them.
        EarlyVerdictError: they leak.
    """
    candidate_id, prompts = winner.candidate_id, run.read_prompts(winner.candidate_id)
    report = run.check_leaks(prompts)
    if report.blocked:
        run.files.write("leaks", {**(run.files.read("leaks") or {}), candidate_id: report.to_dict()})
        raise EarlyVerdictError("leak_blocked", f"{candidate_id}, the best after re-evaluation, {_LEAKS}")
    return ApprovedSet(candidate_id, prompts, report)


def _none_of_the_best(n: int) -> str:
    return "the only candidate was not" if n == 1 else f"none of the best {n} candidates was"


def _rank(run: TuningRun, measured: Baseline) -> dict[str, float]:
    """Return candidate → score, with a sufficient score, the best first; of equal prompts and scores the earliest."""
    tuning = run.files.snapshot()
    scores, n = tuning.val_scores, len(tuning.proposals)
    better = {each: score for each, score in scores.items() if score > measured.val_score}
    if not better:
        none = "the only proposal" if n == 1 else f"none of {n} proposals"
        was = "was not" if n == 1 else "was"
        began = f"the starting prompts ({run.metric} {measured.val_score:.1%})"
        raise EarlyVerdictError(
            "no_accepted_candidate", f"{none} ({len(scores)} scored on validation) {was} better than {began}"
        )
    seen = {digest(run.parent)}
    ranked = {}
    for candidate_id in sorted(better, key=lambda each: -better[each]):
        prompts_digest = digest(tuning.get_prompts(candidate_id))
        if prompts_digest not in seen:
            ranked[candidate_id] = better[candidate_id]
        seen.add(prompts_digest)
    if not ranked:
        raise EarlyVerdictError(
            "no_accepted_candidate", "every candidate that was better on validation has the starting prompts"
        )
    return ranked


def _drop_leaking(run: TuningRun, ids: Collection[str]) -> list[str]:
    """Return as many candidates as the shortlist holds, without those that leak."""
    clean: list[str] = []
    reports: dict[str, LeakReport] = {}
    for candidate_id in ids:
        if len(clean) == run.config.shortlist.size:
            break
        prompts = run.read_prompts(candidate_id)
        report = reports[candidate_id] = run.check_leaks(prompts)
        if report.hits:
            run.show(f"  {candidate_id}: {'blocked: ' if report.blocked else ''}{report.summary()}")
        if not report.blocked:
            clean.append(candidate_id)
    run.files.write("leaks", {each: report.to_dict() for each, report in reports.items()})
    if not clean:
        each = "the only candidate that was" if len(ids) == 1 else f"each of the {len(ids)} candidates that were"
        raise EarlyVerdictError("leak_blocked", f"{each} better on validation {_LEAKS}")
    return clean


def _evaluate_again(run: TuningRun, candidate_id: str, val_score: float, measured: Baseline) -> ShortlistEntry:
    """Let a candidate, or the parent, answer the validation questions anew."""
    epochs = range(_FIRST_NEW_EPOCH, _FIRST_NEW_EPOCH + run.config.shortlist.epochs)
    prompts = run.read_prompts(candidate_id)
    passes = [[trial.record for trial in run.answer_validation(prompts, epoch)] for epoch in epochs]
    scores = [[record.value for record in records] for records in zip(*passes, strict=True)]  # by question
    usage = AnswerMeans.of([record for records in passes for record in records])
    usage = replace(usage, seconds=max(usage.seconds, measured.seconds))  # replayed answers took no time
    score = fmean(map(fmean, scores))
    entry = ShortlistEntry(candidate_id, val_score, score, compute_metric_interval(scores), **asdict(usage))
    run.show(f"  {candidate_id}: {run.metric} {score:.1%} re-evaluated ({val_score:.1%} in the search)")
    return entry
