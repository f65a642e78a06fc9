"""Numbers that few runs have: labels, repeats, parts and further scorers, leaks, people's labels, questions tuned on.

Sources: pass@k, M. Chen et al., "Evaluating Large Language Models Trained on Code" (2021), and pass^k, S. Yao et al.,
"τ-bench" (2024): unbiased estimators, the share of all draws of k of a sample's answers that hold a right one, or only
right ones.

An answer is the label that it equals without case and white space, or the target if the scorer accepts it. A failure is
no answer: it stays in the denominator of the recall, and in the matrix it has a column of its own.

    summarise_rare(final, info, incomplete=False)      # the fields of a `Summary` that the run has
    estimate_pass_at(1, 4, 2)      # 0.5: 1 of 4 answers is right; 3 of the 6 pairs hold it
    estimate_pass_hat(3, 4, 2)     # 0.5: 3 of the 6 pairs are right twice
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from eval.analysis.human_review.labels import AMBIGUOUS, BAD_QUESTION, LABELS
from eval.analysis.statistics.intervals import (
    Estimate,
    Tally,
    compute_clustered_interval,
    compute_icc,
    compute_mean_interval,
)
from eval.analysis.summary.measures import (
    REMARKS,
    get_key,
    group_by_sample,
    measure,
    measure_values,
    measure_without,
)
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, TuningUse
from eval.scorers.labels import LabelSet
from eval.scorers.score import name_metric, read_scorer_name, read_value
from mas.prompt_sets.provenance import TUNED_ON_FILE

OTHER, NO_ANSWER, OTHER_TARGET = "(another answer)", "(no answer)", "(another target)"  # keys of the confusion
MIN_PARTS, MAX_PARTS = 2, 12  # of a score, to be summarised

_Cell = tuple[str, str]  # target and answer
_Samples = Sequence[Sequence[_Cell]]  # the answers to each sample


@dataclass(frozen=True, kw_only=True)
class EpochNumbers:
    """Numbers that need several epochs."""

    icc: float
    pass_at: dict[str, Estimate]  # k → share
    pass_hat: dict[str, Estimate]


@dataclass(frozen=True, kw_only=True)
class ExtraNumbers:
    """Result of a scorer that does not decide, over the same answers as the metric."""

    metric: str  # name of what `score` is
    score: Estimate  # answers in error, and those that it could not score, count as 0
    n_failed: int  # that it could not score
    first_error: str | None


@dataclass(frozen=True, kw_only=True)
class LabelNumbers:
    """Precision, recall and F1 of one label."""

    precision: Estimate  # of the answers that are it
    recall: Estimate  # of the answers whose target it is, failures included
    f1: float | None  # None: it is no target, and no answer


@dataclass(frozen=True, kw_only=True)
class LabelSummary:
    """Numbers of a run whose targets are labels."""

    macro_f1: float | None  # mean over the labels that are a target
    by_label: dict[str, LabelNumbers]
    confusion: dict[str, dict[str, int]]  # target → answer → answers


@dataclass(frozen=True, kw_only=True)
class TuningOverlap:
    """Samples of the run that its prompts were tuned on, of those with a target."""

    prompts: str
    n_questions: int | None  # None: unknown
    n_all: int
    is_edited: bool  # the set's tuned_on.json was edited or removed
    n_learnt_from: int
    n_picked_by: int
    without: Estimate | None = None  # the metric on the others, as below; None: it is not known yet

    def describe_sets(self) -> str:
        """Return `owned (20 for training, 20 for validation)`."""
        counts = ((self.n_learnt_from, "training"), (self.n_picked_by, "validation"))
        return f"{self.prompts} ({', '.join(f'{n} for {role}' for n, role in counts if n)})"

    def describe_unknown(self) -> str:
        """Return the sentence about a set whose tuned_on.json was edited; empty if it was not."""
        if not self.is_edited:
            return ""
        return f"{TUNED_ON_FILE} of {self.prompts} was edited or removed: which questions it was tuned on is not known"


@dataclass(frozen=True, kw_only=True)
class Leaks:
    """Samples that met web results which give them away, in any epoch."""

    n_questions: int
    sources: tuple[str, ...]
    without: Estimate  # the metric without these samples; without a value if there are none, or no others


@dataclass(frozen=True, kw_only=True)
class HumanReview:
    """Labels of people on a run. Ambiguous and bad questions stay in the metric; `without` leaves them out."""

    labels: dict[str, int]  # label → questions or answers that have it
    score_before: float | None  # the metric as the run was scored without people
    without: Estimate


def summarise_rare(final: Sequence[Record], info: RunInfo, incomplete: bool) -> dict[str, Any]:
    """Return the fields of a summary that few runs have; those of this run."""
    scored = [each for each in final if each.scored]
    found: dict[str, Any] = {
        "parts": _summarise_parts(scored, incomplete),
        "leaks": _summarise_leaks(final, incomplete),
        "extra_scorers": {
            name: _summarise_extra(name, read_scorer_name(node), scored, incomplete)
            for name, node in info.part("extra_scorers").items()
        },
    }
    if info.task.labels:
        found["labels"] = _summarise_labels(scored, LabelSet(tuple(info.task.labels)), incomplete)
    if info.epochs > 1 and not incomplete:
        found["by_epochs"] = summarise_epochs(final, info.epochs)
    if any(each.human for each in final):
        found["human_review"] = _summarise_review(final, incomplete)
    ids = {each.sample_id for each in scored}
    if info.tuning_use and ids:
        without = measure_without(final, info.tuning_use.ids & ids, incomplete)
        found["used_to_tune"] = replace(measure_overlap(info.tuning_use, ids), without=without)
    return found


def _summarise_labels(scored: Sequence[Record], labels: LabelSet, incomplete: bool) -> LabelSummary | None:
    samples = [[_read_cell(each, labels) for each in answers] for answers in group_by_sample(scored)]
    if not samples:
        return None
    cells = Counter(cell for sample in samples for cell in sample)
    confusion = {
        target: {answer: n for answer in (*labels.names, OTHER, NO_ANSWER) if (n := cells[target, answer])}
        for target in (*labels.names, OTHER_TARGET)
    }
    by_label = {name: _summarise_label(name, samples, incomplete) for name in labels.names}
    found = [each.f1 or 0.0 for each in by_label.values() if each.recall.n]
    return LabelSummary(
        macro_f1=fmean(found) if found else None,
        by_label=by_label,
        confusion={target: row for target, row in confusion.items() if row},
    )


def _read_cell(given: Record, labels: LabelSet) -> _Cell:
    """Return the labels that the target and the answer are; an answer that the scorer accepts is the target."""
    target, text = labels.find(given.target), (given.answer or "").strip()
    answer = labels.find(text) or (target if given.correct else None) or OTHER
    return target or OTHER_TARGET, answer if text else NO_ANSWER


def _summarise_label(name: str, samples: _Samples, incomplete: bool) -> LabelNumbers:
    def measure_share(side: int) -> Estimate:
        """Return the share of right answers among those whose target, or whose answer, is the label."""
        rights = [[float(cell == (name, name)) for cell in sample if cell[side] == name] for sample in samples]
        return measure_values(rights, incomplete)

    recall, precision = measure_share(0), measure_share(1)
    n = (recall.n or 0) + (precision.n or 0)
    n_right = sum(cell == (name, name) for sample in samples for cell in sample)
    return LabelNumbers(precision=precision, recall=recall, f1=2 * n_right / n if n else None)


def _summarise_parts(scored: Sequence[Record], incomplete: bool) -> dict[str, Estimate]:
    """Return the mean of each part; none if the score has one or very many, or parts that are no shares."""
    names = dict.fromkeys(name for each in scored for name in each.parts if name not in REMARKS)
    values = [each.parts.get(name, 0.0) for each in scored for name in names]
    if not MIN_PARTS <= len(names) <= MAX_PARTS or any(not 0 <= value <= 1 for value in values):
        return {}
    having = {name: [each for each in scored if each.error_class or name in each.parts] for name in names}
    return {
        name: measure(answers, incomplete, lambda answer: answer.parts.get(name, 0.0))  # noqa: B023
        for name, answers in having.items()
    }


def _summarise_extra(name: str, scorer: str | None, scored: Sequence[Record], incomplete: bool) -> ExtraNumbers:
    """Return an extra scorer's mean over all answers with a target; what has no value from it counts as 0."""

    def read(answer: Record) -> float:
        return read_value(answer.extra_scores[name].value) if name in answer.extra_scores else 0.0

    errors = [each.extra_scores[name].error for each in scored if name in each.extra_scores]
    failed = list(filter(None, errors))
    metric, score = name_metric(scorer, map(read, scored)), measure(scored, incomplete, read)
    return ExtraNumbers(metric=metric, score=score, n_failed=len(failed), first_error=failed[0] if failed else None)


def _summarise_leaks(final: Sequence[Record], incomplete: bool) -> Leaks | None:
    ids = {each.sample_id for each in final if each.leaks}
    if not ids:
        return None
    sources = tuple(dict.fromkeys(result["source"] for each in final for result in each.leaks))
    return Leaks(n_questions=len(ids), sources=sources, without=measure_without(final, ids, incomplete))


def summarise_epochs(final: Iterable[Record], epochs: int) -> EpochNumbers | None:
    """Return the numbers for each k; None for one epoch, or without any target. Missing epochs count as wrong."""
    samples = [answers for answers in group_by_sample(final) if answers[0].scored]
    if epochs < 2 or not samples:
        return None
    tallies = [(sum(each.correct for each in answers), max(epochs, len(answers))) for answers in samples]
    return EpochNumbers(
        icc=round(compute_icc(tallies), 4),
        pass_at={str(k): _estimate(k, tallies, estimate_pass_at) for k in range(1, epochs + 1)},
        pass_hat={str(k): _estimate(k, tallies, estimate_pass_hat) for k in range(1, epochs + 1)},
    )


def estimate_pass_at(correct: int, n: int, k: int) -> float:
    """Return the share of the draws of k of the n answers with at least one right answer."""
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def estimate_pass_hat(correct: int, n: int, k: int) -> float:
    """Return the share of the draws of k of the n answers with right answers only."""
    return math.comb(correct, k) / math.comb(n, k)


def _estimate(k: int, tallies: Sequence[Tally], estimator: Callable[[int, int, int], float]) -> Estimate:
    values = [estimator(correct, n, k) for correct, n in tallies]
    if k == 1:  # the accuracy itself
        return Estimate(fmean(values), compute_clustered_interval(tallies))
    return Estimate(fmean(values), compute_mean_interval(values, max_n=sum(n for _, n in tallies) / k))


def _summarise_review(final: Sequence[Record], incomplete: bool) -> HumanReview:
    """Return what people have said of the last attempts and their questions."""
    said = [(each, verdict) for each in final for verdict in each.human]
    labelled = {(label.label, each.sample_id if label.is_of_question else get_key(each)) for each, label in said}
    counts = Counter(label for label, _ in labelled)
    unfair = {each.sample_id for each, label in said if label.label in (AMBIGUOUS, BAD_QUESTION)}
    before = [read_value(each.human[0].score_before) if each.human else each.value for each in final if each.scored]
    return HumanReview(
        labels={name: counts[name] for name in LABELS if counts[name]},
        score_before=sum(before) / len(before) if before else None,
        without=measure_without(final, unfair, incomplete),
    )


def measure_overlap(use: TuningUse, sample_ids: Collection[str]) -> TuningOverlap:
    """Return how many samples with a target the prompts were tuned on: no other sample is in the accuracy."""
    used, learnt_from = use.ids & set(sample_ids), set(use.learnt_from) & set(sample_ids)
    return TuningOverlap(
        prompts=use.prompts,
        n_questions=len(used) or (None if use.is_edited else 0),
        n_all=len(sample_ids),
        is_edited=use.is_edited,
        n_learnt_from=len(learnt_from),
        n_picked_by=len(used - learnt_from),
    )
